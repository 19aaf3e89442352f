// The command line of turnbox-fsd: descriptors and numbers, no paths.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "vmm/sys/result.h"

namespace turnbox::fsd {

struct Options {
  int workspace_fd = -1,
      turn_fd = -1;           // listening unix stream sockets, one for each device; -1: without that device
  int control_fd = -1;        // a connected unix stream socket, the owner's
  int control_listener = -1;  // a listening unix stream socket for operators; -1: none come
  std::optional<uid_t> peer_uid;
  std::optional<uid_t> control_uid;
  uid_t uid = 0;  // 0: keep the caller's
  gid_t gid = 0;
  uint64_t bytes = 0, inodes = 0;  // 0: the tree's own limits
};

// Empty optional: help or the version was asked for and stands in `shown`. Errors have kind usage.
sys::Result<std::optional<Options>> parse_options(int argc, const char* const* argv, std::string& shown);

}  // namespace turnbox::fsd
