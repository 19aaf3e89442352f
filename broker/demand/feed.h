// Feeds a stored version into a turnbox-fsd, as an import stream of pieces of a few MiB.
//
// What goes in is what comes out again: modes, owners, times, symlinks, hard links, special files and
// contents have the digests that they had; blocks of zeros are left out as holes. Inode numbers are the
// receiver's own, so the meta's digest is the same only where it numbers files in the order of the walk, as a
// fresh fsd does for what was imported into a fresh fsd.
#pragma once

#include <cstdint>
#include <string_view>

#include "broker/demand/import_stream.h"
#include "broker/turn/stored_tree.h"
#include "fs/control/client.h"

namespace turnbox::demand {

struct Fed {
  uint64_t entries = 0, bytes = 0;  // of the import
};

// `target`: `workspace` (of an epoch that is empty) or `input:NAME`. Kind invalid for a file fed as a
// workspace, and for objects that do not fit together.
sys::Result<Fed> feed_version(const turn::StoredTree& tree, control::Client& files, std::string_view target);

// The same into any taker.
sys::Status write_version(const turn::StoredTree& tree, const TakePiece& take);

}  // namespace turnbox::demand
