// The driver's side of one split virtqueue, in a GuestMemory: adds chains, kicks, collects used entries; and
// lets a test write any descriptor, index or flag it likes. Waiting is by poll on the call descriptor, never
// by sleeping.
#pragma once

#include <chrono>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "tests/support/guest_memory.h"

namespace turnbox::support {

using Deadline = std::chrono::milliseconds;
inline constexpr Deadline kDeadline{10000};  // for what must happen
inline constexpr Deadline kQuiet{100};       // for what must not

struct Desc {
  uint64_t addr;
  uint32_t len;
  uint16_t flags;
  uint16_t next;
};
inline constexpr uint16_t kNext = 1, kWrite = 2, kIndirect = 4;

struct Part {
  uint64_t gpa;
  uint32_t len;
  bool writable;
};

struct Used {
  uint32_t head;
  uint32_t len;
};

// An eventfd became readable within the time; takes its count.
bool signalled(int eventfd, Deadline within);

class FakeRing {
 public:
  FakeRing(GuestMemory& memory, uint16_t size, bool event_idx);

  // Publishes one chain; its descriptors come back with the used entry. Returns the head.
  uint16_t add(std::span<const Part> parts);
  uint16_t add_indirect(std::span<const Part> parts);
  void kick();
  bool kick_wanted() const;  // as a driver must ask before it kicks

  std::optional<Used> take_used();                             // what is there now
  std::optional<Used> wait_used(Deadline within = kDeadline);  // asks for an interrupt and waits for it

  // Raw access. Indices and flags are the rings' own cells.
  uint16_t size() const { return size_; }
  uint64_t desc() const { return desc_; }
  uint64_t avail() const { return avail_; }
  uint64_t used() const { return used_; }
  void write_desc(uint16_t index, const Desc& desc);
  void publish(uint16_t head);  // one available entry, whatever it says
  void set_avail_idx(uint16_t idx);
  uint16_t avail_idx() const { return avail_idx_; }
  uint16_t used_idx() const;
  void set_used_event(uint16_t idx);
  uint16_t avail_event() const;
  // Both sides begin at this index (SET_VRING_BASE carries it to the device).
  void begin_at(uint16_t idx);
  void give_back(uint32_t head);  // descriptors of a chain that was written raw are not known here: no effect

  int kick_fd() const { return kick_.get(); }
  int call_fd() const { return call_.get(); }
  int err_fd() const { return err_.get(); }

 private:
  uint16_t take_desc();
  std::byte* cell(uint64_t gpa) const { return memory_.at(gpa, 8).data(); }

  GuestMemory& memory_;
  uint16_t size_;
  bool event_idx_;
  uint64_t desc_, avail_, used_;
  sys::Fd kick_, call_, err_;
  uint16_t avail_idx_ = 0;
  uint16_t last_used_ = 0;
  uint16_t kicked_at_ = 0;  // avail_idx_ at the last kick decision
  std::vector<uint16_t> free_;
  struct Owned {
    std::vector<uint16_t> descs;
    uint64_t table = 0;
    size_t table_size = 0;
  };
  std::vector<Owned> owned_;  // by head
};

}  // namespace turnbox::support
