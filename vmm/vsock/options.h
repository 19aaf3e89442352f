// The command line of turnbox-vsockd: descriptors and numbers, no paths.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "vmm/sys/result.h"

namespace turnbox::vsock {

struct Options {
  int device_fd = -1;   // listening unix stream socket for the vhost-user front end
  int connect_fd = -1;  // listening unix stream socket for host processes: vsock.sock
  int dial_fd = -1;     // connected SOCK_SEQPACKET to the broker; its end is ours
  std::vector<uint32_t> allow;
  uint64_t cid = 3;
  std::optional<uid_t> peer_uid;
  std::optional<uid_t> connect_uid;
  uid_t uid = 0;
  gid_t gid = 0;
};

// What the command line asks for: to serve, or to print a text and exit 0. Errors are of kind usage.
struct Invocation {
  std::optional<Options> serve;
  std::string print;
};
sys::Result<Invocation> parse_options(int argc, const char* const* argv);

}  // namespace turnbox::vsock
