// Writes import streams (docs/WIRE.md, «Import stream») in sealed pieces, for whatever has files to hand
// over.
//
// Used from one thread. A piece is handed on as soon as it is full, so no more than one is in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vmm/sys/bytes.h"
#include "vmm/sys/fd.h"

namespace turnbox::demand {

// Gets sealed memfds of about the piece size, in order; `more` is false for the last one.
using TakePiece = std::function<sys::Status(sys::Fd memfd, bool more)>;

struct ImportHead {
  char type;
  uint16_t mode = 0;
  uint32_t uid = 0, gid = 0;
  int64_t mtime_sec = 0;
  uint32_t mtime_nsec = 0;
  uint32_t rdev = 0;  // as Linux's new_encode_dev
};

class ImportStream {
 public:
  ImportStream(const TakePiece& take, size_t piece_bytes);
  sys::Status put(const ImportHead& head, std::string_view path, sys::ByteSpan body = {});
  // Extended attributes of an entry that was put; none: no record.
  sys::Status put_xattrs(std::string_view path,
                         const std::vector<std::pair<std::string, std::string>>& xattrs);
  sys::Status finish();  // the end record, and the last piece

 private:
  sys::Status flush(bool more);
  const TakePiece& take_;
  const size_t piece_bytes_;
  sys::Bytes buffer_;
};

}  // namespace turnbox::demand
