#include "fs/tree/inode_table.h"

#include <cstring>

#include "vmm/sys/result.h"

namespace turnbox::fs {
namespace {

constexpr unsigned kBits = 6;

unsigned slot_of(Ino ino, unsigned level) {
  return static_cast<unsigned>(ino >> (kBits * level)) & 63;
}
bool covers(unsigned height, Ino ino) {
  return kBits * (height + 1) >= 64 || (ino >> (kBits * (height + 1))) == 0;
}

// Removes `ino` below `slot`; true when nothing is left there.
bool erase_below(Nodes& nodes, Node*& slot, unsigned level, Ino ino) {
  const unsigned at = slot_of(ino, level);
  if (level == 0) {
    auto* leaf = nodes.own_packed<Inode>(slot);
    Nodes::erase(leaf, at);
    if (leaf->count == 0) return true;
    nodes.shrink_packed<Inode>(slot);
    return false;
  }
  auto* inner = nodes.own_packed<Node*>(slot);
  Node*& child = *inner->find(at);
  if (!erase_below(nodes, child, level - 1, ino)) return false;
  nodes.discard(child);
  Nodes::erase(inner, at);
  if (inner->count == 0) return true;
  nodes.shrink_packed<Node*>(slot);
  return false;
}

// The first number at or after `ino` below a node, both counted from its first.
std::optional<Ino> first_below(const Node* node, unsigned level, Ino ino) {
  const unsigned from = slot_of(ino, level);
  if (level == 0) {
    const unsigned slot = static_cast<const InodeLeaf*>(node)->slot_at_or_after(from);
    return slot < 64 ? std::optional<Ino>(slot) : std::nullopt;
  }
  const auto* inner = static_cast<const Inner*>(node);
  for (unsigned slot = inner->slot_at_or_after(from); slot < 64; slot = inner->slot_at_or_after(slot + 1)) {
    const Ino base = Ino{slot} << (kBits * level);
    const auto found = first_below(*inner->find(slot), level - 1, slot == from ? ino : 0);
    if (found) return base + *found;
  }
  return {};
}

using Visit = std::function<void(Ino, const Inode*, const Inode*)>;

void differing_leaves(const InodeLeaf* a, const InodeLeaf* b, Ino base, const Visit& visit) {
  for (unsigned slot = 0; slot < 64; ++slot) {
    const Inode* left = a != nullptr ? a->find(slot) : nullptr;
    const Inode* right = b != nullptr ? b->find(slot) : nullptr;
    if (left == nullptr && right == nullptr) continue;
    if (left != nullptr && right != nullptr && std::memcmp(left, right, sizeof *left) == 0) continue;
    visit(base + slot, left, right);
  }
}

void differing_below(const Node* a, const Node* b, unsigned level, Ino base, const Visit& visit) {
  if (a == b) return;
  if (level == 0) {
    return differing_leaves(static_cast<const InodeLeaf*>(a), static_cast<const InodeLeaf*>(b), base, visit);
  }
  for (unsigned slot = 0; slot < 64; ++slot) {
    const auto child = [slot](const Node* node) -> const Node* {
      const Node* const* found = node != nullptr ? static_cast<const Inner*>(node)->find(slot) : nullptr;
      return found != nullptr ? *found : nullptr;
    };
    differing_below(child(a), child(b), level - 1, base + (Ino{slot} << (kBits * level)), visit);
  }
}

}  // namespace

const Inode* InodeTable::find(Ino ino) const {
  if (root == nullptr || !covers(height, ino)) return nullptr;
  const Node* node = root;
  for (unsigned level = height; level > 0; --level) {
    const Node* const* child = static_cast<const Inner*>(node)->find(slot_of(ino, level));
    if (child == nullptr) return nullptr;
    node = *child;
  }
  return static_cast<const InodeLeaf*>(node)->find(slot_of(ino, 0));
}

std::optional<Ino> InodeTable::first_from(Ino ino) const {
  if (root == nullptr || !covers(height, ino)) return {};
  return first_below(root, height, ino);
}

Inode* InodeTable::edit(Nodes& nodes, Ino ino) {
  Node** slot = &root;
  for (unsigned level = height; level > 0; --level) {
    slot = nodes.own_packed<Node*>(*slot)->find(slot_of(ino, level));
  }
  return nodes.own_packed<Inode>(*slot)->find(slot_of(ino, 0));
}

Inode* InodeTable::insert(Nodes& nodes, Ino ino) {
  if (root == nullptr) {
    root = nodes.make_packed<Inode>(NodeKind::inode_leaf, 1);
    height = 0;
  }
  while (!covers(height, ino)) {
    auto* above = nodes.make_packed<Node*>(NodeKind::inode_inner, 2);
    *Nodes::insert(above, 0) = root;
    root = above;
    ++height;
  }
  Node** slot = &root;
  for (unsigned level = height; level > 0; --level) {
    const unsigned at = slot_of(ino, level);
    const bool there = static_cast<Inner*>(*slot)->has(at);
    auto* inner = nodes.own_packed<Node*>(*slot, there ? 0 : 1);
    slot = there ? inner->find(at) : Nodes::insert(inner, at);
    if (there) continue;
    if (level == 1) {
      *slot = nodes.make_packed<Inode>(NodeKind::inode_leaf, 1);
    } else {
      *slot = nodes.make_packed<Node*>(NodeKind::inode_inner, 1);
    }
  }
  auto* leaf = nodes.own_packed<Inode>(*slot, 1);
  TURNBOX_ASSERT(!leaf->has(slot_of(ino, 0)));
  Inode* inode = Nodes::insert(leaf, slot_of(ino, 0));
  std::memset(static_cast<void*>(inode), 0, sizeof *inode);
  return inode;
}

void InodeTable::erase(Nodes& nodes, Ino ino) {
  if (!erase_below(nodes, root, height, ino)) return;
  nodes.discard(root);
  root = nullptr;
  height = 0;
}

void InodeTable::differing(const InodeTable& a, const InodeTable& b, const Visit& visit) {
  // The lower one is compared with the leftmost part of the higher; what the higher has beside it is in it
  // alone.
  const bool swapped = a.height > b.height;
  const InodeTable& low = swapped ? b : a;
  const InodeTable& high = swapped ? a : b;
  const Visit ordered = [&](Ino ino, const Inode* in_low, const Inode* in_high) {
    swapped ? visit(ino, in_high, in_low) : visit(ino, in_low, in_high);
  };
  if (high.root == nullptr) return differing_below(low.root, nullptr, low.height, 0, ordered);
  const Node* node = high.root;
  for (unsigned level = high.height; level > low.height; --level) {
    const auto* inner = static_cast<const Inner*>(node);
    for (unsigned slot = inner->slot_at_or_after(1); slot < 64; slot = inner->slot_at_or_after(slot + 1)) {
      differing_below(nullptr, *inner->find(slot), level - 1, Ino{slot} << (kBits * level), ordered);
    }
    const Node* const* first = inner->find(0);
    if (first == nullptr) return differing_below(low.root, nullptr, low.height, 0, ordered);
    node = *first;
  }
  differing_below(low.root, node, low.height, 0, ordered);
}

}  // namespace turnbox::fs
