// Makes entries of a stored tree as real files, at names of the caller's choosing.
#pragma once

#include <string>

#include "broker/turn/stored_tree.h"
#include "vmm/sys/fd.h"

namespace turnbox::demand {

enum class Owners : uint8_t { keep, caller };  // `keep` needs root

// What a made file shall have.
struct MadeAs {
  uint32_t mode = 0;
  Owners owners = Owners::caller;
  const std::vector<std::pair<std::string, std::string>>* xattrs = nullptr;
};

// Makes one file, symlink, fifo, device or socket `name` in an open directory, with content, mode, owner,
// xattrs and times; of a directory, makes it with mode 0700 and leaves the rest to finish_entry(), once it is
// full. Fails where the name is there; what was half made is left for the caller to remove.
sys::Status make_entry(const turn::StoredTree& tree, const turn::TreeEntry& entry, int directory,
                       const std::string& name, const MadeAs& as);

// Owner, xattrs, mode and times of what stands there.
sys::Status finish_entry(const turn::TreeEntry& entry, int directory, const std::string& name,
                         const MadeAs& as);

}  // namespace turnbox::demand
