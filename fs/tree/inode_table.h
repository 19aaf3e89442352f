// The persistent map from inode number to inode: a trie of 64-way nodes, packed, six bits of the number a
// level.
//
// A value of two words: copying it with the root retained is a snapshot. Pointers to inodes are valid until
// the next change of the table.
#pragma once

#include <functional>
#include <optional>

#include "fs/tree/inode.h"
#include "fs/tree/nodes.h"

namespace turnbox::fs {

struct InodeTable {
  Node* root = nullptr;
  unsigned height = 0;  // inner levels above the leaves

  const Inode* find(Ino ino) const;

  // The first number in use at or after `ino`.
  std::optional<Ino> first_from(Ino ino) const;

  // The inode, with its path made ours; it must be there.
  Inode* edit(Nodes& nodes, Ino ino);
  // A new one, zeroed; the number must be free.
  Inode* insert(Nodes& nodes, Ino ino);
  // Removes it; its content must have been released.
  void erase(Nodes& nodes, Ino ino);

  // Numbers whose inode differs between two tables: skips what they share. An inode may be in one only.
  static void differing(const InodeTable& a, const InodeTable& b,
                        const std::function<void(Ino, const Inode* a, const Inode* b)>& visit);
};

}  // namespace turnbox::fs
