// A directory's entries as a persistent value: functions on the root node that its inode holds.
//
// Entries are kept by cookie (fs/tree/name_hash.h). A root may be null: an empty directory. Changing
// functions need the slot to be ours (its inode edited).
#pragma once

#include <optional>

#include "fs/tree/dir_nodes.h"
#include "fs/tree/name_hash.h"
#include "fs/tree/nodes.h"
#include "vmm/sys/result.h"

namespace turnbox::fs {

class Dir {
 public:
  static std::optional<Dirent> find(const Node* root, std::string_view name);
  // The cookie that a new entry would get; nothing when every rank of its hash is taken.
  static std::optional<uint64_t> free_cookie(const Node* root, std::string_view name);
  // Entries with a cookie ≥ `from`, in order, until `visit` returns false; false if it did. `visit(const
  // Dirent&)`.
  template <typename Visit>
  static bool scan(const Node* root, uint64_t from, Visit&& visit);

  // `entry.cookie` must be free, with the right hash.
  static void insert(Nodes& nodes, Node*& root, const Dirent& entry);
  static void erase(Nodes& nodes, Node*& root, uint64_t cookie);
  // Lets an entry name another inode.
  static void repoint(Nodes& nodes, Node*& root, uint64_t cookie, Ino ino, Type type);

  static unsigned lower_bound(const DirLeaf* leaf, uint64_t cookie);
  static unsigned branch_of(const DirInner* inner, uint64_t cookie);
};

template <typename Visit>
bool Dir::scan(const Node* root, uint64_t from, Visit&& visit) {
  if (root == nullptr) return true;
  if (root->kind == NodeKind::dir_leaf) {
    const auto* leaf = static_cast<const DirLeaf*>(root);
    for (unsigned i = lower_bound(leaf, from); i < leaf->count; ++i) {
      const DirSlot& slot = leaf->slots()[i];
      if (!visit(Dirent{slot.ino(), slot.type(), leaf->name(slot), slot.cookie})) return false;
    }
    return true;
  }
  const auto* inner = static_cast<const DirInner*>(root);
  for (unsigned i = branch_of(inner, from); i < inner->count; ++i) {
    if (!scan(inner->branches()[i].child, from, visit)) return false;
  }
  return true;
}

}  // namespace turnbox::fs
