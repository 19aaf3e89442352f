// Keeps the tree's nodes and pages: makes, counts, copies on write, and frees in steps.
//
// Owned by one Tree and its thread. A node whose count falls to 0 joins a list; reclaim() takes it apart
// later, a few at a time, so that no verb pays for the size of what it removed.
#pragma once

#include <cstddef>
#include <cstring>

#include "fs/page/page_pool.h"
#include "fs/page/slab.h"
#include "fs/tree/inode.h"
#include "fs/tree/node.h"

namespace turnbox::fs {

class Nodes {
 public:
  // A node of `size` bytes with count 1; what follows the Node head is unspecified.
  Node* make(NodeKind kind, size_t size);
  template <typename T>
  Packed<T>* make_packed(NodeKind kind, size_t count) {
    auto* node = static_cast<Packed<T>*>(make(kind, Packed<T>::size_for(count)));
    node->bitmap = 0;
    return node;
  }

  void retain(Node* node) { ++node->refs; }
  void release(Node* node);
  void retain_content(const Inode& inode);
  void release_content(Inode& inode);  // leaves the inode without content

  // The node in `slot`, made ours: itself if its count is 1, else a copy that takes its place. The slot must
  // be ours. The copy has the same size, or `size` bytes if that is more.
  Node* own(Node*& slot, size_t size = 0);
  // The same, with place for `more` items beside those there.
  template <typename T>
  Packed<T>* own_packed(Node*& slot, size_t more = 0);

  // Moves an owned node that is mostly empty to a block that fits.
  template <typename T>
  void shrink_packed(Node*& slot);

  // Item handling of an owned node with room. The new item is returned uninitialised.
  template <typename T>
  static T* insert(Packed<T>* node, unsigned slot);
  template <typename T>
  static void erase(Packed<T>* node, unsigned slot);

  // A freed node without children: gives its memory back at once.
  void discard(Node* node) { slabs_.give(node); }

  // Takes dead nodes apart until none is left or `budget_us` have passed; true while some are left.
  bool reclaim(unsigned budget_us);
  // A bounded number of them, for the end of a verb.
  void reclaim_some();
  bool has_dead() const { return dead_ != nullptr; }

  PagePool& pages() { return pages_; }
  const PagePool& pages() const { return pages_; }
  const SlabPool& slabs() const { return slabs_; }

  uint32_t epoch = 1;

 private:
  static size_t used_size(const Node* node);
  void retain_children(Node* node);
  void take_apart_one();

  SlabPool slabs_;
  PagePool pages_;
  Node* dead_ = nullptr;  // linked through the first eight bytes
};

template <typename T>
Packed<T>* Nodes::own_packed(Node*& slot, size_t more) {
  auto* node = static_cast<Packed<T>*>(slot);
  if (node->refs == 1 && node->room() >= more) return node;
  // Growing by half again keeps filling a node one by one cheap.
  const size_t count =
      node->count + (more == 0 ? 0 : std::max(more, std::min<size_t>(node->count / 2, 64u - node->count)));
  if (node->refs > 1) return static_cast<Packed<T>*>(own(slot, Packed<T>::size_for(count)));
  auto* grown = static_cast<Packed<T>*>(make(node->kind, Packed<T>::size_for(count)));
  std::memcpy(static_cast<void*>(grown), node, Packed<T>::size_for(node->count));
  slot = grown;
  discard(node);
  return grown;
}

template <typename T>
void Nodes::shrink_packed(Node*& slot) {
  auto* node = static_cast<Packed<T>*>(slot);
  const size_t used = Packed<T>::size_for(node->count);
  if (2 * used >= SlabPool::size_of(node)) return;
  auto* small = static_cast<Packed<T>*>(slabs_.take(used));
  std::memcpy(static_cast<void*>(small), node, used);
  slot = small;
  discard(node);
}

template <typename T>
T* Nodes::insert(Packed<T>* node, unsigned slot) {
  const unsigned at = node->index(slot);
  std::memmove(static_cast<void*>(node->items() + at + 1), node->items() + at,
               (node->count - at) * sizeof(T));
  node->bitmap |= uint64_t{1} << slot;
  ++node->count;
  return node->items() + at;
}

template <typename T>
void Nodes::erase(Packed<T>* node, unsigned slot) {
  const unsigned at = node->index(slot);
  --node->count;
  node->bitmap &= ~(uint64_t{1} << slot);
  std::memmove(static_cast<void*>(node->items() + at), node->items() + at + 1,
               (node->count - at) * sizeof(T));
}

}  // namespace turnbox::fs
