// The command line of turnbox-fsd: descriptors and numbers, no paths.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "vmm/sys/result.h"

namespace turnbox::fsd {

struct Options {
  int workspace_fd = -1, turn_fd = -1;  // listening unix stream sockets, one for each device
  int control_fd = -1;                  // a connected unix stream socket
  std::optional<uid_t> peer_uid;
  uid_t uid = 0;  // 0: keep the caller's
  gid_t gid = 0;
  uint64_t bytes = 0, inodes = 0;  // 0: the tree's own limits
};

// Empty optional: help or the version was asked for and stands in `shown`. Errors have kind usage.
sys::Result<std::optional<Options>> parse_options(int argc, const char* const* argv, std::string& shown);

}  // namespace turnbox::fsd
