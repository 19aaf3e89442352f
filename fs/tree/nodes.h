// Keeps the tree's nodes and pages: makes, counts, copies on write, and frees in steps.
//
// Owned by one Tree; the heap below it is shared by a family of trees (Tree::fork), all of one thread. A node
// whose count falls to 0 joins a list; reclaim() takes it apart later, a few at a time, so that no verb pays
// for the size of what it removed.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "fs/page/page_pool.h"
#include "fs/page/slab.h"
#include "fs/tree/inode.h"
#include "fs/tree/node.h"
#include "fs/tree/xattr_set.h"

namespace turnbox::fs {

// What a family of trees shares. The pools give everything back at once when the last tree is gone.
struct Heap {
  SlabPool slabs;
  PagePool pages;
  Node* dead = nullptr;      // linked through the first eight bytes
  uint32_t epochs = 0;       // given out so far
  uint64_t snapshots = 0;    // taken so far, of all trees
  Xattr* outside = nullptr;  // attributes whose value stands outside of the slabs: a list, for the end
  uint64_t outside_bytes = 0;
  std::function<void()> garbage;  // told when a verb left dead nodes; may be empty

  Heap() = default;
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
};

class Nodes {
 public:
  Nodes() : heap_(std::make_shared<Heap>()), epoch(++heap_->epochs) {}
  explicit Nodes(const std::shared_ptr<Heap>& heap) : heap_(heap), epoch(++heap_->epochs) {}
  const std::shared_ptr<Heap>& heap() const { return heap_; }
  bool alone() const { return heap_.use_count() == 1; }
  void next_epoch() { epoch = ++heap_->epochs; }

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

  // An attribute with its value; immutable.
  Xattr* make_xattr(std::string_view name, std::span<const std::byte> value);

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
  void discard(Node* node) { heap_->slabs.give(node); }

  // Takes dead nodes apart until none is left or `budget_us` have passed; true while some are left.
  bool reclaim(unsigned budget_us);
  // A bounded number of them, for the end of a verb; says so where some are left.
  void settle();
  void tell_garbage() {
    if (has_dead() && heap_->garbage) heap_->garbage();
  }
  void on_garbage(std::function<void()> garbage) { heap_->garbage = std::move(garbage); }
  bool has_dead() const { return heap_->dead != nullptr; }

  PagePool& pages() { return heap_->pages; }
  const PagePool& pages() const { return heap_->pages; }
  uint64_t used_bytes() const { return heap_->slabs.used_bytes() + heap_->outside_bytes; }
  uint64_t mapped_bytes() const {
    return heap_->slabs.mapped_bytes() + heap_->outside_bytes + heap_->pages.mapped_bytes();
  }

 private:
  std::shared_ptr<Heap> heap_;  // before epoch, which is taken from it

 public:
  uint32_t epoch;

 private:
  static size_t used_size(const Node* node);
  void retain_children(Node* node);
  void take_apart_one();
  void discard_xattr(Xattr* xattr);
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
  auto* small = static_cast<Packed<T>*>(heap_->slabs.take(used));
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
