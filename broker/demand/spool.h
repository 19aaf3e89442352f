// The objects of a live version, in an unlinked file beside a small index, so that a live tree can be looked
// into as a stored one. Owned by one command; one thread.
#pragma once

#include <unordered_map>

#include "broker/turn/stored_tree.h"
#include "fs/control/client.h"
#include "vmm/sys/fd.h"

namespace turnbox::demand {

class Spool {
 public:
  // Takes a snapshot of `of` and fetches its objects, without those in `have`. The snapshot goes with the
  // connection.
  static sys::Result<Spool> take(control::Client& files, std::string_view of,
                                 std::span<const sys::Digest> have = {});

  // Its objects; what it has not comes from `rest`. The spool outlives it, and stays where it is.
  turn::Fetch fetch(turn::Fetch rest = {}) const;
  // The version; what was in `have` comes from `rest`. The spool outlives it, and stays where it is.
  turn::StoredTree tree(turn::Fetch rest = {}) const;

 private:
  struct Place {
    store::ObjectKind kind;
    uint64_t offset;
    uint32_t size;
  };
  sys::Fd file_;
  std::unordered_map<sys::Digest, Place> index_;
  turn::TreeRef ref_;
};

// Every object's digest below a tree, its meta's included.
sys::Result<std::vector<sys::Digest>> objects_below(const turn::Fetch& fetch, const turn::TreeRef& tree);

}  // namespace turnbox::demand
