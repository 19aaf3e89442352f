// Reads a directory (or a file) of the host into import streams (docs/WIRE.md, «Import stream»), and never
// writes to it.
//
// Walks with openat(2) below the given root, follows no symbolic link but the root itself, and keeps modes,
// owners (as root), times, symbolic links, hard links, fifos and holes. A socket or device is refused by name
// before anything is sent.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "broker/demand/host_stamps.h"
#include "broker/demand/import_stream.h"
#include "vmm/sys/fd.h"

namespace turnbox::demand {

struct HostTreeTotals {
  uint64_t entries = 0;
  uint64_t bytes = 0;  // of file content
};

using Tell = std::function<void(const HostTreeTotals&)>;  // now and then, for a progress line
inline constexpr uint64_t kPieceBytes = uint64_t{32} << 20;

enum class RootKind { directory, any };

// Kind invalid names the path and the remedy: not there, not a directory, a socket inside, changed while
// being read.
// `stamps`, if any, gets what every entry looked like before it was read.
sys::Result<HostTreeTotals> read_host_tree(const std::string& path, RootKind kind, const TakePiece& take,
                                           const Tell& tell, HostStamps* stamps = nullptr);

}  // namespace turnbox::demand
