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
  auto* node = static_cast<Node*>(slabs_.take(size));
  *node = Node{.refs = 1, .epoch = epoch, .kind = kind, .count = 0, .heap = 0, .dead = 0};
  return node;
}

size_t Nodes::used_size(const Node* node) {
  switch (node->kind) {
    case NodeKind::inode_inner:
    case NodeKind::page_inner:
      return packed_size<Node*>(node);
    case NodeKind::inode_leaf:
      return packed_size<Inode>(node);
    case NodeKind::chunk:
      return packed_size<Page*>(node);
    case NodeKind::dir_inner:
      return DirInner::size_for(node->count);
    case NodeKind::dir_leaf:
      return SlabPool::size_of(node);  // names stand at the end
    case NodeKind::blob:
      return sizeof(Node) + node->count;
  }
  TURNBOX_ASSERT(false);
}

void Nodes::retain_content(const Inode& inode) {
  if (inode.node == nullptr) return;
  if (inode.is_file() && inode.height == 0) {
    pages_.retain(inode.page);
  } else {
    retain(inode.node);
  }
}

void Nodes::release_content(Inode& inode) {
  if (inode.node == nullptr) return;
  if (inode.is_file() && inode.height == 0) {
    pages_.release(inode.page);
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
      for (unsigned i = 0; i < leaf->count; ++i) retain_content(leaf->items()[i]);
      return;
    }
    case NodeKind::chunk: {
      auto* chunk = static_cast<Chunk*>(node);
      for (unsigned i = 0; i < chunk->count; ++i) pages_.retain(chunk->items()[i]);
      return;
    }
    case NodeKind::dir_inner: {
      auto* inner = static_cast<DirInner*>(node);
      for (unsigned i = 0; i < inner->count; ++i) retain(inner->branches()[i].child);
      return;
    }
    case NodeKind::dir_leaf:
    case NodeKind::blob:
      return;
  }
}

Node* Nodes::own(Node*& slot, size_t size) {
  Node* old = slot;
  if (old->refs == 1) return old;
  const size_t used = used_size(old);
  if (old->kind == NodeKind::dir_leaf) size = 0;  // a leaf keeps its block size: offsets count from the front
  auto* copy = static_cast<Node*>(slabs_.take(std::max(size, used)));
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
  std::memcpy(static_cast<void*>(node), &dead_, sizeof dead_);
  dead_ = node;
}

void Nodes::take_apart_one() {
  Node* node = dead_;
  std::memcpy(&dead_, node, sizeof dead_);
  switch (node->kind) {
    case NodeKind::inode_inner:
    case NodeKind::page_inner: {
      auto* inner = static_cast<Inner*>(node);
      for (unsigned i = 0; i < inner->count; ++i) release(inner->items()[i]);
      break;
    }
    case NodeKind::inode_leaf: {
      auto* leaf = static_cast<InodeLeaf*>(node);
      for (unsigned i = 0; i < leaf->count; ++i) release_content(leaf->items()[i]);
      break;
    }
    case NodeKind::chunk: {
      auto* chunk = static_cast<Chunk*>(node);
      for (unsigned i = 0; i < chunk->count; ++i) pages_.release(chunk->items()[i]);
      break;
    }
    case NodeKind::dir_inner: {
      auto* inner = static_cast<DirInner*>(node);
      for (unsigned i = 0; i < inner->count; ++i) release(inner->branches()[i].child);
      break;
    }
    case NodeKind::dir_leaf:
    case NodeKind::blob:
      break;
  }
  discard(node);
}

void Nodes::reclaim_some() {
  for (unsigned i = 0; i < kSomeNodes && dead_ != nullptr; ++i) take_apart_one();
}

bool Nodes::reclaim(unsigned budget_us) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::microseconds(budget_us);
  do {
    for (unsigned i = 0; i < kNodesBetweenLooks; ++i) {
      if (dead_ == nullptr) return false;
      take_apart_one();
    }
  } while (Clock::now() < end);
  return dead_ != nullptr;
}

}  // namespace turnbox::fs
