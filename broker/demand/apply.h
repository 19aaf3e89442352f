// Writes a turn's changes back to the directory that its workspace was imported from (`turnbox run --apply`).
//
// The trees come from a hostile guest and the directory may have changed meanwhile, so:
//  1. Nothing is written before everything was checked: a file that is touched must look as it did when it
//  was
//     imported (device, inode, size, mtime, ctime), and what is added must not be there. Otherwise nothing is
//     applied, and every such file is named.
//  2. No path leaves the directory: every step is openat2 below it, and a component that is a symlink now is
//  a
//     conflict.
//  3. New content is staged beside its place and renamed over it; deletions come last.
//  4. Set-user-id and set-group-id bits, and attributes that give rights (`security.`, `trusted.`), are left
//  out;
//     devices and sockets are refused by name.
#pragma once

#include <string>
#include <vector>

#include "broker/demand/host_stamps.h"
#include "broker/turn/stored_tree.h"

namespace turnbox::demand {

struct Applied {
  uint64_t added = 0, changed = 0, removed = 0;  // entries
  std::vector<std::string> notes;                // what was left out, one sentence each
};

// Kind conflict names what changed on the host; refused names what is never applied; unavailable: the
// directory cannot be written to. In all three nothing was done. Kind io: it broke off in the middle; the
// sentence says so.
sys::Result<Applied> apply_changes(const std::string& directory, const HostStamps& imported,
                                   const turn::StoredTree& before, const turn::StoredTree& after);

}  // namespace turnbox::demand
