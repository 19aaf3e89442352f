// Entry lists (docs/WIRE.md, «Entry list»): one directory of a version, written by fsd, read by the command.
#pragma once

#include <functional>
#include <string>

#include "fs/control/protocol.h"

namespace turnbox::control {

inline constexpr size_t kReadPiece = size_t{4} << 20;  // most bytes of one tree.read

struct ListedEntry {
  char type = 'f';  // f d l c b p s
  uint16_t mode = 0;
  uint32_t uid = 0, gid = 0;
  uint64_t size = 0;
  int64_t mtime_sec = 0;
  uint32_t mtime_nsec = 0;
  std::string name;  // raw bytes; empty where the path itself is no directory
};

void append_entry(sys::Bytes& to, const ListedEntry& entry);
// Visits every record; kind protocol when the bytes break the format.
sys::Status read_entry_list(sys::ByteSpan bytes, const std::function<void(ListedEntry)>& visit);

}  // namespace turnbox::control
