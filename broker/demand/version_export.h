// A version as real files: a directory, or a tar file. Nothing half-made is left under the name that was
// asked for.
#pragma once

#include <string>
#include <vector>

#include "broker/turn/stored_tree.h"

namespace turnbox::demand {

// Made aside in the same parent, then renamed. Refuses (conflict) a directory that is not empty, and anything
// that is no directory. Owners are kept as root; others cannot make devices (refused by name) and own
// everything.
sys::Status export_directory(const turn::StoredTree& tree, const std::string& directory);

// A pax archive, to `fd` from its position on: the same version gives the same bytes. Sockets have no place
// in an archive: their paths are returned.
sys::Result<std::vector<std::string>> export_version_tar(const turn::StoredTree& tree, int fd);

}  // namespace turnbox::demand
