#include "fs/tree/dir_leaf.h"

#include <algorithm>
#include <cstring>

#include "fs/tree/dir.h"
#include "vmm/sys/result.h"

namespace turnbox::fs::leaf {
namespace {

constexpr size_t kSmallest = 64;

size_t cost(size_t name_size) {
  return sizeof(DirSlot) + 1 + name_size;
}

DirLeaf* make_sized(Nodes& nodes, size_t size) {
  auto* leaf = static_cast<DirLeaf*>(nodes.make(NodeKind::dir_leaf, std::clamp(size, kSmallest, kLeafMax)));
  leaf->heap = static_cast<uint16_t>(SlabPool::size_of(leaf));
  return leaf;
}

Dirent entry_of(const DirLeaf* leaf, unsigned i) {
  const DirSlot& slot = leaf->slots()[i];
  return {slot.ino(), slot.type(), leaf->name(slot), slot.cookie};
}

void append(DirLeaf* to, const DirLeaf* from, unsigned first, unsigned last) {
  for (unsigned i = first; i < last; ++i) place(to, entry_of(from, i));
}

// Bytes that entries [first, last) take.
size_t bytes_of(const DirLeaf* leaf, unsigned first, unsigned last) {
  size_t bytes = 0;
  for (unsigned i = first; i < last; ++i) bytes += cost(leaf->name(leaf->slots()[i]).size());
  return bytes;
}

// A packed copy of the leaf in `slot` takes its place, in a block of at least `size` bytes.
void rebuild(Nodes& nodes, Node*& slot, size_t size) {
  auto* old = static_cast<DirLeaf*>(slot);
  DirLeaf* packed = make_sized(nodes, size);
  append(packed, old, 0, old->count);
  nodes.release(old);
  slot = packed;
}

}  // namespace

DirLeaf* make(Nodes& nodes) {
  return make_sized(nodes, kSmallest);
}

bool make_room(Nodes& nodes, Node*& slot, size_t name_size) {
  auto* leaf = static_cast<DirLeaf*>(slot);
  const size_t more = cost(name_size);
  if (leaf->gap() >= more) {
    nodes.own(slot);
    return true;
  }
  const size_t live = leaf->live();
  if (live + more > kLeafMax) return false;
  rebuild(nodes, slot, live + std::max(more, live / 8));
  return true;
}

void place(DirLeaf* leaf, const Dirent& entry) {
  TURNBOX_ASSERT(leaf->gap() >= cost(entry.name.size()));
  leaf->heap = static_cast<uint16_t>(leaf->heap - 1 - entry.name.size());
  auto* name = reinterpret_cast<char*>(leaf) + leaf->heap;
  *name = static_cast<char>(entry.name.size());
  std::memcpy(name + 1, entry.name.data(), entry.name.size());
  DirSlot* at = leaf->slots() + Dir::lower_bound(leaf, entry.cookie);
  DirSlot* end = leaf->slots() + leaf->count;
  TURNBOX_ASSERT(at == end || at->cookie != entry.cookie);
  std::move_backward(at, end, end + 1);
  *at = {entry.cookie, DirSlot::pack(entry.ino, entry.type, leaf->heap)};
  ++leaf->count;
}

Node* split(Nodes& nodes, Node*& slot) {
  auto* old = static_cast<DirLeaf*>(slot);
  const size_t half = bytes_of(old, 0, old->count) / 2;
  unsigned cut = 0;
  size_t low = 0;
  while (low < half) low += bytes_of(old, cut, cut + 1), ++cut;
  DirLeaf* left = make_sized(nodes, sizeof(Node) + low);
  append(left, old, 0, cut);
  DirLeaf* right = make_sized(nodes, sizeof(Node) + bytes_of(old, cut, old->count));
  append(right, old, cut, old->count);
  nodes.release(old);
  slot = left;
  return right;
}

void erase(Nodes& nodes, Node*& slot, uint64_t cookie) {
  auto* leaf = static_cast<DirLeaf*>(nodes.own(slot));
  DirSlot* at = leaf->slots() + Dir::lower_bound(leaf, cookie);
  TURNBOX_ASSERT(at->cookie == cookie);
  leaf->dead = static_cast<uint16_t>(leaf->dead + 1 + leaf->name(*at).size());
  std::move(at + 1, leaf->slots() + leaf->count, at);
  --leaf->count;
  const size_t live = leaf->live();
  if (leaf->count > 0 && live * 2 < SlabPool::size_of(leaf)) rebuild(nodes, slot, live + live / 8);
}

void join(Nodes& nodes, Node*& slot, const Node* right) {
  const auto* upper = static_cast<const DirLeaf*>(right);
  rebuild(nodes, slot, static_cast<DirLeaf*>(slot)->live() + upper->live());
  append(static_cast<DirLeaf*>(slot), upper, 0, upper->count);
}

}  // namespace turnbox::fs::leaf
