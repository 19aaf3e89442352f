#include "fs/tree/dir.h"

#include <algorithm>

#include "fs/tree/dir_leaf.h"

namespace turnbox::fs {
namespace {

// A node that had to be cut in two: `right` takes what is ≥ key.
struct Cut {
  uint64_t key;
  Node* right;
};

std::optional<Cut> insert_below(Nodes& nodes, Node*& slot, const Dirent& entry);

std::optional<Cut> insert_in_leaf(Nodes& nodes, Node*& slot, const Dirent& entry) {
  if (leaf::make_room(nodes, slot, entry.name.size())) {
    leaf::place(static_cast<DirLeaf*>(slot), entry);
    return std::nullopt;
  }
  Node* right = leaf::split(nodes, slot);
  const uint64_t key = static_cast<DirLeaf*>(right)->slots()[0].cookie;
  Node*& half = entry.cookie < key ? slot : right;
  TURNBOX_ASSERT(leaf::make_room(nodes, half, entry.name.size()));
  leaf::place(static_cast<DirLeaf*>(half), entry);
  return Cut{key, right};
}

DirInner* own_inner(Nodes& nodes, Node*& slot, size_t more) {
  auto* inner = static_cast<DirInner*>(slot);
  const size_t size =
      DirInner::size_for(std::min<size_t>(inner->count + more * (1 + inner->count / 2), kFanout));
  if (inner->refs > 1) return static_cast<DirInner*>(nodes.own(slot, size));
  if (inner->room() >= more) return inner;
  auto* grown = static_cast<DirInner*>(nodes.make(NodeKind::dir_inner, size));
  grown->count = inner->count;
  std::copy_n(inner->branches(), inner->count, grown->branches());
  nodes.discard(inner);
  slot = grown;
  return grown;
}

void add_branch(DirInner* inner, unsigned at, Cut cut) {
  DirBranch* branches = inner->branches();
  std::move_backward(branches + at, branches + inner->count, branches + inner->count + 1);
  branches[at] = {cut.key, cut.right};
  ++inner->count;
}

std::optional<Cut> insert_in_inner(Nodes& nodes, Node*& slot, const Dirent& entry) {
  auto* inner = own_inner(nodes, slot, 0);
  const unsigned at = Dir::branch_of(inner, entry.cookie);
  const auto cut = insert_below(nodes, inner->branches()[at].child, entry);
  if (!cut) return std::nullopt;
  if (inner->count < kFanout) {
    add_branch(own_inner(nodes, slot, 1), at + 1, *cut);
    return std::nullopt;
  }
  constexpr unsigned kHalf = kFanout / 2;
  auto* right = static_cast<DirInner*>(nodes.make(NodeKind::dir_inner, DirInner::size_for(kHalf + 1)));
  std::copy_n(inner->branches() + kHalf, kHalf, right->branches());
  right->count = kHalf;
  inner->count = kHalf;
  const uint64_t key = right->branches()[0].key;
  if (at + 1 <= kHalf) {
    add_branch(inner, at + 1, *cut);
  } else {
    add_branch(right, at + 1 - kHalf, *cut);
  }
  return Cut{key, right};
}

std::optional<Cut> insert_below(Nodes& nodes, Node*& slot, const Dirent& entry) {
  return slot->kind == NodeKind::dir_leaf ? insert_in_leaf(nodes, slot, entry)
                                          : insert_in_inner(nodes, slot, entry);
}

// Joins branch `at` with its right neighbour if both are leaves that fit into one with room to spare.
void join_leaves(Nodes& nodes, DirInner* inner, unsigned at) {
  if (at + 1 >= inner->count) return;
  DirBranch* branches = inner->branches();
  Node* left = branches[at].child;
  Node* right = branches[at + 1].child;
  if (left->kind != NodeKind::dir_leaf || right->kind != NodeKind::dir_leaf) return;
  if (static_cast<DirLeaf*>(left)->live() + static_cast<DirLeaf*>(right)->live() > kLeafMax / 4 * 3) return;
  leaf::join(nodes, branches[at].child, right);
  nodes.release(right);
  std::move(branches + at + 2, branches + inner->count, branches + at + 1);
  --inner->count;
}

// Removes the entry below `slot`; true when nothing is left there.
bool erase_below(Nodes& nodes, Node*& slot, uint64_t cookie) {
  if (slot->kind == NodeKind::dir_leaf) {
    leaf::erase(nodes, slot, cookie);
    return slot->count == 0;
  }
  auto* inner = own_inner(nodes, slot, 0);
  const unsigned at = Dir::branch_of(inner, cookie);
  DirBranch* branches = inner->branches();
  if (erase_below(nodes, branches[at].child, cookie)) {
    nodes.release(branches[at].child);
    std::move(branches + at + 1, branches + inner->count, branches + at);
    --inner->count;
  } else if (branches[at].child->kind == NodeKind::dir_leaf &&
             static_cast<DirLeaf*>(branches[at].child)->live() < kLeafMax / 4) {
    join_leaves(nodes, inner, at + 1 < inner->count || at == 0 ? at : at - 1);
  }
  return inner->count == 0;
}

}  // namespace

unsigned Dir::lower_bound(const DirLeaf* leaf, uint64_t cookie) {
  const DirSlot* slots = leaf->slots();
  return static_cast<unsigned>(
      std::lower_bound(slots, slots + leaf->count, cookie,
                       [](const DirSlot& slot, uint64_t key) { return slot.cookie < key; }) -
      slots);
}

unsigned Dir::branch_of(const DirInner* inner, uint64_t cookie) {
  const DirBranch* branches = inner->branches();
  const auto* after =
      std::upper_bound(branches + 1, branches + inner->count, cookie,
                       [](uint64_t key, const DirBranch& branch) { return key < branch.key; });
  return static_cast<unsigned>(after - branches) - 1;
}

std::optional<Dirent> Dir::find(const Node* root, std::string_view name) {
  const uint64_t base = name_cookie(name);
  std::optional<Dirent> found;
  scan(root, base, [&](const Dirent& entry) {
    if (entry.cookie - base >= kRanks) return false;
    if (entry.name != name) return true;
    found = entry;
    return false;
  });
  return found;
}

std::optional<uint64_t> Dir::free_cookie(const Node* root, std::string_view name) {
  const uint64_t base = name_cookie(name);
  uint64_t rank = 0;
  scan(root, base, [&](const Dirent& entry) {
    if (entry.cookie != base + rank) return false;
    ++rank;
    return true;
  });
  if (rank == kRanks) return std::nullopt;
  return base + rank;
}

void Dir::insert(Nodes& nodes, Node*& root, const Dirent& entry) {
  TURNBOX_ASSERT(entry.ino <= kMaxIno);
  if (root == nullptr) root = leaf::make(nodes);
  const auto cut = insert_below(nodes, root, entry);
  if (!cut) return;
  auto* above = static_cast<DirInner*>(nodes.make(NodeKind::dir_inner, DirInner::size_for(2)));
  above->count = 2;
  above->branches()[0] = {0, root};
  above->branches()[1] = {cut->key, cut->right};
  root = above;
}

void Dir::erase(Nodes& nodes, Node*& root, uint64_t cookie) {
  if (erase_below(nodes, root, cookie)) {
    nodes.release(root);
    root = nullptr;
    return;
  }
  while (root->kind == NodeKind::dir_inner && root->count == 1) {
    Node* only = static_cast<DirInner*>(root)->branches()[0].child;
    nodes.discard(root);
    root = only;
  }
}

void Dir::repoint(Nodes& nodes, Node*& root, uint64_t cookie, Ino ino, Type type) {
  Node** slot = &root;
  while ((*slot)->kind == NodeKind::dir_inner) {
    auto* inner = own_inner(nodes, *slot, 0);
    slot = &inner->branches()[branch_of(inner, cookie)].child;
  }
  auto* leaf = static_cast<DirLeaf*>(nodes.own(*slot));
  DirSlot& at = leaf->slots()[lower_bound(leaf, cookie)];
  TURNBOX_ASSERT(at.cookie == cookie && ino <= kMaxIno);
  at.packed = DirSlot::pack(ino, type, at.offset());
}

}  // namespace turnbox::fs
