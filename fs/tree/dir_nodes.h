// The nodes of a directory: a B+ tree of entries in cookie order, names packed into the leaves.
//
// A leaf is one block: the Node head, slots of 16 bytes in cookie order from the front, names (one length
// byte, then the bytes) from the back. Nothing in it is counted, so copying a leaf is one memcpy.
#pragma once

#include <string_view>

#include "fs/tree/node.h"
#include "fs/tree/types.h"

namespace turnbox::fs {

inline constexpr size_t kLeafMax = 4096;
inline constexpr unsigned kFanout = 64;

struct DirSlot {
  uint64_t cookie;
  uint64_t packed;  // inode number << 16 | type << 12 | offset of the name

  static uint64_t pack(Ino ino, Type type, size_t offset) {
    return ino << 16 | uint64_t{static_cast<uint8_t>(type)} << 12 | offset;
  }
  Ino ino() const { return packed >> 16; }
  Type type() const { return static_cast<Type>(packed >> 12 & 15); }
  size_t offset() const { return packed & 4095; }
};
inline constexpr Ino kMaxIno = (Ino{1} << 48) - 1;  // what a slot can hold; a tree lives for fewer creations

struct DirLeaf : Node {
  DirSlot* slots() { return reinterpret_cast<DirSlot*>(this + 1); }
  const DirSlot* slots() const { return reinterpret_cast<const DirSlot*>(this + 1); }
  std::string_view name(const DirSlot& slot) const {
    const char* at = reinterpret_cast<const char*>(this) + slot.offset();
    return {at + 1, static_cast<uint8_t>(*at)};
  }
  size_t slots_end() const { return sizeof(Node) + count * sizeof(DirSlot); }
  size_t gap() const { return heap - slots_end(); }
  // What the block needs at least for what is alive in it.
  size_t live() const { return slots_end() + (SlabPool::size_of(this) - heap) - dead; }
};

struct DirBranch {
  uint64_t key;  // every cookie below is ≥ key; the first one's is not looked at
  Node* child;
};

struct DirInner : Node {
  DirBranch* branches() { return reinterpret_cast<DirBranch*>(this + 1); }
  const DirBranch* branches() const { return reinterpret_cast<const DirBranch*>(this + 1); }
  static size_t size_for(size_t count) { return sizeof(Node) + count * sizeof(DirBranch); }
  size_t room() const { return (SlabPool::size_of(this) - sizeof(Node)) / sizeof(DirBranch) - count; }
};

}  // namespace turnbox::fs
