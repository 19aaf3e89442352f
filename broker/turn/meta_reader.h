// Reads the rows of a tree's meta (docs/RECORD.md, «Objects») one after the other, without holding all of it.
// Private to broker/turn.
#pragma once

#include <deque>
#include <optional>

#include "broker/turn/object_walk.h"

namespace turnbox::turn {

struct MetaRow {
  std::string path;
  uint64_t ino = 0;
  uint32_t uid = 0, gid = 0, nlink = 0;
  int64_t mtime_sec = 0;
  uint32_t mtime_nsec = 0, mode = 0;
  std::vector<std::pair<std::string, std::string>> xattrs;
};

// Rows are handed to `visit` in order; invalid when the bytes are no rows.
class MetaReader {
 public:
  explicit MetaReader(std::function<sys::Status(const MetaRow&)> visit) : visit_(std::move(visit)) {}
  sys::Status feed(sys::ByteSpan bytes);
  sys::Status finish() const;  // nothing may be left over

 private:
  static std::optional<MetaRow> take(sys::ByteReader& reader);
  std::function<sys::Status(const MetaRow&)> visit_;
  sys::Bytes pending_;
};

}  // namespace turnbox::turn
