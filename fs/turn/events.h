// The event logs of turns: one JSON object a line, in the order of arrival, the guest's and the daemon's own.
//
// Belongs to the thread that owns the tree.
// Invariants:
//  1. A log's file holds whole lines only; a line stands in it whole or not at all.
//  2. A line with a top-level member `turnbox` was written by the daemon: the guest's are refused.
//  3. An append that is refused keeps nothing of its bytes. EINVAL also forgets the unfinished line of that
//  handle, so
//     that the handle's next line starts afresh.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "fs/tree/tree.h"
#include "fs/virtiofs/device.h"
#include "vmm/sys/result.h"

namespace turnbox::turn {

struct EventLimits {
  size_t line = size_t{64} << 10;             // newline included: EINVAL
  uint64_t guest_bytes = uint64_t{16} << 20;  // a turn's lines by the guest: ENOSPC
  uint64_t own_bytes = uint64_t{48} << 20;    // and by the daemon: the guest cannot use these up
  size_t unfinished_bytes = size_t{4} << 20;  // of all handles together: ENOSPC
};

class Events final : public virtiofs::EventLog {
 public:
  explicit Events(fs::Tree& tree, EventLimits limits = {}) : tree_(tree), limits_(limits) {}

  // Makes the log `dir`/events in a zone of its own.
  fs::Expected<fs::Ino> make(fs::Ino dir);
  // No byte is added from here on: EROFS.
  void seal(fs::Ino file);
  // The daemon's own event, written as {"turnbox": event}.
  sys::Status append_own(fs::Ino file, std::string_view event_json);
  uint64_t lines(fs::Ino file) const;
  sys::Result<std::string> read(fs::Ino file) const;

  fs::Expected<size_t> append(fs::Ino file, uint64_t handle, std::span<const std::byte> bytes) override;
  void closed(fs::Ino file, uint64_t handle) override;

 private:
  struct Log {
    fs::ZoneId zone = 0;
    bool sealed = false;
    uint64_t size = 0, lines = 0, guest_bytes = 0;
  };
  using Writer = std::pair<fs::Ino, uint64_t>;  // file, handle

  fs::Expected<void> write(fs::Ino file, Log& log, std::string_view lines);
  void keep_unfinished(const Writer& writer, std::string_view text);

  fs::Tree& tree_;
  EventLimits limits_;
  std::unordered_map<fs::Ino, Log> logs_;
  std::map<Writer, std::string> unfinished_;
  size_t unfinished_bytes_ = 0;
};

}  // namespace turnbox::turn
