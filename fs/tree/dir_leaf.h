// What can be done to one leaf of a directory (fs/tree/dir_nodes.h has its layout).
#pragma once

#include "fs/tree/dir_nodes.h"
#include "fs/tree/nodes.h"

namespace turnbox::fs::leaf {

DirLeaf* make(Nodes& nodes);
// Makes the leaf in `slot` ours, with room for one more entry; false, and nothing changed, if it would pass
// kLeafMax.
bool make_room(Nodes& nodes, Node*& slot, size_t name_size);
// Adds an entry; there must be room.
void place(DirLeaf* leaf, const Dirent& entry);
// Cuts the leaf in `slot` in half by bytes; returns the upper half, both ours.
Node* split(Nodes& nodes, Node*& slot);
// Takes one entry out; shrinks a block that has become mostly empty.
void erase(Nodes& nodes, Node*& slot, uint64_t cookie);
// Appends every entry of `right`, which stays as it is.
void join(Nodes& nodes, Node*& slot, const Node* right);

}  // namespace turnbox::fs::leaf
