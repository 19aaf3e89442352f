// The blocks the tree is made of: counted, persistent, shared between the live tree and its snapshots.
//
// Invariants:
//  1. A node is changed in place only if its count is 1 and so is that of every node above it; else it is
//  copied
//     first. A snapshot counts the root, so whatever it reaches fails that test.
//  2. Counts are read and written by the tree's thread alone; readers of a snapshot look at everything else.
//  3. `epoch` is the tree's epoch when the node was last changed. A tree gets a new one at each snapshot,
//  never one that another tree of its family had. So within one inode a chunk's position and epoch name its
//  content, as far as snapshots can tell: digests are kept by it.
#pragma once

#include <bit>
#include <cstdint>

#include "fs/page/page_pool.h"
#include "fs/page/slab.h"

namespace turnbox::fs {

enum class NodeKind : uint8_t {
  inode_inner,  // Packed<Node*>
  inode_leaf,   // Packed<Inode>
  page_inner,   // Packed<Node*>
  chunk,        // Packed<PageRef>, 16 slots
  dir_inner,    // DirInner
  dir_leaf,     // DirLeaf
  blob,         // Blob: a symlink's target
  xattrs,       // XattrSet (fs/tree/xattr_set.h)
  xattr,        // Xattr
};

struct Node {
  uint32_t refs;
  uint32_t epoch;
  NodeKind kind;
  uint16_t count;  // items; a blob: bytes
  uint16_t heap;   // dir_leaf: where the names begin
  uint16_t dead;   // dir_leaf: bytes of names that are gone
};
static_assert(sizeof(Node) == 16);

// Up to 64 slots of which only the used ones take room: a bitmap, then the items in slot order.
template <typename T>
struct Packed : Node {
  uint64_t bitmap;

  T* items() { return reinterpret_cast<T*>(this + 1); }
  const T* items() const { return reinterpret_cast<const T*>(this + 1); }
  bool has(unsigned slot) const { return (bitmap >> slot & 1) != 0; }
  unsigned index(unsigned slot) const {
    return static_cast<unsigned>(std::popcount(bitmap & ((uint64_t{1} << slot) - 1)));
  }
  T* find(unsigned slot) { return has(slot) ? items() + index(slot) : nullptr; }
  const T* find(unsigned slot) const { return has(slot) ? items() + index(slot) : nullptr; }
  unsigned slot_at_or_after(unsigned slot) const {  // 64: none
    return slot > 63 ? 64 : static_cast<unsigned>(std::countr_zero(bitmap >> slot << slot));
  }

  static size_t size_for(size_t count) { return sizeof(Packed) + count * sizeof(T); }
  size_t room() const { return (SlabPool::size_of(this) - sizeof(Packed)) / sizeof(T) - count; }
};

// Where a file's page is: nowhere (a hole), a page, or one that was allocated and not written yet. The last
// reads as zeros, whatever its bytes are, so that allocating touches no memory.
class PageRef {
 public:
  PageRef() = default;
  explicit PageRef(Page* page, bool unwritten = false)
      : bits_(reinterpret_cast<uintptr_t>(page) | (unwritten ? 1u : 0u)) {}
  bool none() const { return bits_ == 0; }
  bool unwritten() const { return (bits_ & 1) != 0; }
  Page* page() const { return reinterpret_cast<Page*>(bits_ & ~uintptr_t{1}); }
  const Page* content() const { return unwritten() ? nullptr : page(); }  // null: zeros

 private:
  uintptr_t bits_;
};

using Inner = Packed<Node*>;
using Chunk = Packed<PageRef>;

struct Blob : Node {
  char* bytes() { return reinterpret_cast<char*>(this + 1); }
  const char* bytes() const { return reinterpret_cast<const char*>(this + 1); }
};

}  // namespace turnbox::fs
