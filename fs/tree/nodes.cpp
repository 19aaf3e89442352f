#include "fs/tree/nodes.h"

#include <algorithm>
#include <chrono>

#include "fs/tree/dir_nodes.h"
#include "vmm/sys/result.h"

namespace turnbox::fs {
namespace {

constexpr unsigned kSomeNodes = 32;
constexpr unsigned kNodesBetweenLooks = 4;  // at the clock

template <typename T>
size_t packed_size(const Node* node) {
  return Packed<T>::size_for(node->count);
}

}  // namespace

Node* Nodes::make(NodeKind kind, size_t size) {
  auto* node = static_cast<Node*>(heap_->slabs.take(size));
  *node = Node{.refs = 1, .epoch = epoch, .kind = kind, .count = 0, .heap = 0, .dead = 0};
  return node;
}

Heap::~Heap() {
  for (Xattr* one = outside; one != nullptr; one = one->next) delete[] one->outside;
}

Xattr* Nodes::make_xattr(std::string_view name, std::span<const std::byte> value) {
  const size_t whole = sizeof(Xattr) + name.size() + value.size();
  const bool outside = whole > SlabPool::kLargest;
  auto* made = static_cast<Xattr*>(make(NodeKind::xattr, outside ? sizeof(Xattr) + name.size() : whole));
  made->count = static_cast<uint16_t>(name.size());
  made->value_size = static_cast<uint32_t>(value.size());
  made->outside = nullptr;
  auto* at = reinterpret_cast<std::byte*>(made + 1);
  std::memcpy(at, name.data(), name.size());
  if (!outside) {
    if (!value.empty()) std::memcpy(at + name.size(), value.data(), value.size());
    return made;
  }
  made->outside = new std::byte[value.size()];
  std::memcpy(made->outside, value.data(), value.size());
  made->prev = nullptr;
  made->next = heap_->outside;
  if (made->next != nullptr) made->next->prev = made;
  heap_->outside = made;
  heap_->outside_bytes += value.size();
  return made;
}

void Nodes::discard_xattr(Xattr* xattr) {
  if (xattr->outside != nullptr) {
    if (xattr->next != nullptr) xattr->next->prev = xattr->prev;
    (xattr->prev != nullptr ? xattr->prev->next : heap_->outside) = xattr->next;
    heap_->outside_bytes -= xattr->value_size;
    delete[] xattr->outside;
  }
  discard(xattr);
}

size_t Nodes::used_size(const Node* node) {
  switch (node->kind) {
    case NodeKind::inode_inner:
    case NodeKind::page_inner:
      return packed_size<Node*>(node);
    case NodeKind::inode_leaf:
      return packed_size<Inode>(node);
    case NodeKind::chunk:
      return packed_size<PageRef>(node);
    case NodeKind::dir_inner:
      return DirInner::size_for(node->count);
    case NodeKind::dir_leaf:
      return SlabPool::size_of(node);  // names stand at the end
    case NodeKind::blob:
      return sizeof(Node) + node->count;
    case NodeKind::xattrs:
    case NodeKind::xattr:
      break;  // never copied: a change makes new ones
  }
  TURNBOX_ASSERT(false);
}

void Nodes::retain_content(const Inode& inode) {
  if (inode.node == nullptr) return;
  if (inode.is_file() && inode.height == 0) {
    heap_->pages.retain(inode.page.page());
  } else {
    retain(inode.node);
  }
}

void Nodes::release_content(Inode& inode) {
  if (inode.node == nullptr) return;
  if (inode.is_file() && inode.height == 0) {
    heap_->pages.release(inode.page.page());
  } else {
    release(inode.node);
  }
  inode.node = nullptr;
  inode.height = 0;
}

void Nodes::retain_children(Node* node) {
  switch (node->kind) {
    case NodeKind::inode_inner:
    case NodeKind::page_inner: {
      auto* inner = static_cast<Inner*>(node);
      for (unsigned i = 0; i < inner->count; ++i) retain(inner->items()[i]);
      return;
    }
    case NodeKind::inode_leaf: {
      auto* leaf = static_cast<InodeLeaf*>(node);
      for (unsigned i = 0; i < leaf->count; ++i) {
        const Inode& inode = leaf->items()[i];
        retain_content(inode);
        if (inode.xattrs != nullptr) retain(inode.xattrs);
      }
      return;
    }
    case NodeKind::chunk: {
      auto* chunk = static_cast<Chunk*>(node);
      for (unsigned i = 0; i < chunk->count; ++i) heap_->pages.retain(chunk->items()[i].page());
      return;
    }
    case NodeKind::dir_inner: {
      auto* inner = static_cast<DirInner*>(node);
      for (unsigned i = 0; i < inner->count; ++i) retain(inner->branches()[i].child);
      return;
    }
    case NodeKind::dir_leaf:
    case NodeKind::blob:
    case NodeKind::xattrs:
    case NodeKind::xattr:
      return;
  }
}

Node* Nodes::own(Node*& slot, size_t size) {
  Node* old = slot;
  if (old->refs == 1) return old;
  const size_t used = used_size(old);
  if (old->kind == NodeKind::dir_leaf) size = 0;  // a leaf keeps its block size: offsets count from the front
  auto* copy = static_cast<Node*>(heap_->slabs.take(std::max(size, used)));
  std::memcpy(static_cast<void*>(copy), old, used);
  copy->refs = 1;
  copy->epoch =
      old->kind == NodeKind::chunk ? old->epoch : epoch;  // a chunk's is its content's: set by who writes
  retain_children(copy);
  --old->refs;
  slot = copy;
  return copy;
}

void Nodes::release(Node* node) {
  TURNBOX_ASSERT(node->refs > 0);
  if (--node->refs > 0) return;
  if (node->kind == NodeKind::dir_leaf || node->kind == NodeKind::blob) return discard(node);  // no children
  if (node->kind == NodeKind::xattr) return discard_xattr(static_cast<Xattr*>(node));
  std::memcpy(static_cast<void*>(node), &heap_->dead, sizeof heap_->dead);
  heap_->dead = node;
}

void Nodes::take_apart_one() {
  Node* node = heap_->dead;
  std::memcpy(&heap_->dead, node, sizeof heap_->dead);
  switch (node->kind) {
    case NodeKind::inode_inner:
    case NodeKind::page_inner: {
      auto* inner = static_cast<Inner*>(node);
      for (unsigned i = 0; i < inner->count; ++i) release(inner->items()[i]);
      break;
    }
    case NodeKind::inode_leaf: {
      auto* leaf = static_cast<InodeLeaf*>(node);
      for (unsigned i = 0; i < leaf->count; ++i) {
        Inode& inode = leaf->items()[i];
        release_content(inode);
        if (inode.xattrs != nullptr) release(inode.xattrs);
      }
      break;
    }
    case NodeKind::chunk: {
      auto* chunk = static_cast<Chunk*>(node);
      for (unsigned i = 0; i < chunk->count; ++i) heap_->pages.release(chunk->items()[i].page());
      break;
    }
    case NodeKind::dir_inner: {
      auto* inner = static_cast<DirInner*>(node);
      for (unsigned i = 0; i < inner->count; ++i) release(inner->branches()[i].child);
      break;
    }
    case NodeKind::xattrs: {
      auto* set = static_cast<XattrSet*>(node);
      for (unsigned i = 0; i < set->count; ++i) release(set->items()[i]);
      break;
    }
    case NodeKind::dir_leaf:
    case NodeKind::blob:
    case NodeKind::xattr:
      break;
  }
  discard(node);
}

void Nodes::settle() {
  for (unsigned i = 0; i < kSomeNodes && heap_->dead != nullptr; ++i) take_apart_one();
  tell_garbage();
}

bool Nodes::reclaim(unsigned budget_us) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::microseconds(budget_us);
  do {
    for (unsigned i = 0; i < kNodesBetweenLooks; ++i) {
      if (heap_->dead == nullptr) return false;
      take_apart_one();
    }
  } while (Clock::now() < end);
  return heap_->dead != nullptr;
}

}  // namespace turnbox::fs
