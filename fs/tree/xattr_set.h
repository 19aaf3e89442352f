// The extended attributes of one inode as a persistent value: a sorted array of counted attributes, which
// never change.
//
// Setting one makes a new array and shares every other attribute. A value that no slab holds stands outside
// of them, so that it is one span wherever it is read.
#pragma once

#include <span>
#include <string_view>

#include "fs/tree/node.h"

namespace turnbox::fs {

class Nodes;

struct Xattr : Node {  // count: bytes of the name, which follow
  uint32_t value_size;
  std::byte* outside;  // the value; null: it follows the name
  Xattr* next;         // of those with a value outside
  Xattr* prev;

  const char* name_bytes() const { return reinterpret_cast<const char*>(this + 1); }
  std::string_view name() const { return {name_bytes(), count}; }
  std::span<const std::byte> value() const {
    const auto* inside = reinterpret_cast<const std::byte*>(name_bytes()) + count;
    return {outside != nullptr ? outside : inside, value_size};
  }
  uint64_t bytes() const { return uint64_t{count} + value_size; }
};

struct XattrSet : Node {  // count: attributes, sorted by name; never 0
  uint32_t bytes;         // of all names and values
  uint32_t list_bytes;    // of all names, each with its NUL
  Xattr** items() { return reinterpret_cast<Xattr**>(this + 1); }
  std::span<const Xattr* const> all() const {
    return {reinterpret_cast<const Xattr* const*>(this + 1), count};
  }
  static size_t size_for(size_t count) { return sizeof(XattrSet) + count * sizeof(Xattr*); }
};

inline constexpr size_t kMaxXattrs = 1000;       // on one inode
inline constexpr size_t kMaxXattrList = 60'000;  // bytes of their names: one listxattr(2) always holds them
inline constexpr size_t kMaxXattrBytes = 1u << 20;  // of names and values on one inode
inline constexpr size_t kMaxXattrName = 255;
inline constexpr size_t kMaxXattrValue = 65'536;

// Functions on the node that an inode holds, which may be null: no attributes.
class Xattrs {
 public:
  static const Xattr* find(const Node* set, std::string_view name);
  static std::span<const Xattr* const> all(const Node* set);
  static uint64_t bytes(const Node* set);
  static uint64_t list_bytes(const Node* set);
  static bool same(const Node* a, const Node* b);

  static void put(Nodes& nodes, Node*& set, std::string_view name, std::span<const std::byte> value);
  // Nothing happens where there is none of that name.
  static void erase(Nodes& nodes, Node*& set, std::string_view name);
};

}  // namespace turnbox::fs
