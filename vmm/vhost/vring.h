// A split virtqueue in guest memory: pops chains with every descriptor checked, pushes used entries, and
// decides when to notify. Source: virtio 1.2, section 2.7; checks: docs/hostile-guest section 2.
//
// Owned by the back end, one a queue; one thread. Invariants:
//  1. Single fetch: a descriptor, an indirect table and every ring index is copied once and only the copy is
//  judged.
//  2. The used index, the next available index and the set of heads in flight are ours; guest memory holds
//  copies.
//  3. A breach breaks this ring until its next start: counted, the front end's error descriptor signalled,
//  the
//     reason given to the fault callback. Nothing else of the device is touched.
//  4. In the steady state pop() and push() allocate nothing.
//
// Order of accesses: avail.idx is loaded with acquire before the entries it covers; used.idx is stored with
// release after the entry it covers; between our index store and the read of the guest's event (and the other
// way round) stands a full fence, else both sides could miss each other and sleep.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "vmm/sys/fd.h"
#include "vmm/vhost/counters.h"
#include "vmm/vhost/memory.h"
#include "vmm/vhost/queue.h"
#include "vmm/vhost/watch.h"

namespace turnbox::vhost {

inline constexpr uint64_t kMaxReadableBytes = (1U << 20) + 4096;  // one FUSE write of 1 MiB with its heads
inline constexpr unsigned kRoundChains = 64;                      // a round's share of work
inline constexpr uint64_t kRoundBytes = 4U << 20;

struct VringLayout {
  std::byte* desc = nullptr;   // 16-aligned, 16 * size bytes
  std::byte* avail = nullptr;  // 2-aligned, 6 + 2 * size
  std::byte* used = nullptr;   // 4-aligned, 6 + 8 * size
  uint16_t size = 0;           // a power of two, at most 32768
};

class Vring final : public Queue {
 public:
  using OnFault = std::function<void(const char* rule)>;

  Vring(Counters& counters, OnFault on_fault) : counters_(counters), on_fault_(std::move(on_fault)) {}

  // The descriptors for «used» and «error»; empty: none. Non-blocking.
  void set_call(sys::Fd fd) { call_ = std::move(fd); }
  void set_err(sys::Fd fd) { err_ = std::move(fd); }

  // Sets the next available index for a start to come, and forgets a fault and the used index.
  void set_base(uint16_t next_avail);
  uint16_t next_avail() const { return next_avail_; }

  // `memory` outlives the run. The used index is read from the ring once after set_base(), else it is kept.
  void start(const Memory& memory, const VringLayout& layout, uint64_t features);
  void stop();
  bool running() const { return memory_ != nullptr; }

  // How long an empty ring is watched inside a round.
  void set_patience(std::chrono::nanoseconds most) { watch_ = Watch(most); }

  void begin_round();
  // Notifies; true when the round ended for its share of work and the ring has to be served again.
  bool end_round();
  // Whether or not the guest asked.
  void notify();

  std::optional<Chain> pop() override;
  void push(Chain chain, uint32_t written) override;
  bool round_over() const override;
  void flush() override;
  bool broken() const override { return fault_ != nullptr; }
  void fault(const char* rule) override;
  // Counts, signals and reports as fault() does, of a ring that may go on all the same.
  void report(const char* what);
  const char* fault_rule() const { return fault_; }  // nullptr: none

 private:
  struct Desc {
    uint64_t addr;
    uint32_t len;
    uint16_t flags;
    uint16_t next;
  };
  // One chain while it is read.
  struct Walk {
    uint64_t readable_bytes = 0;
    uint64_t writable_bytes = 0;
    size_t readable_parts = 0;
  };

  bool load_avail();
  bool watch_avail();
  std::optional<uint16_t> take_head();
  const char* walk(uint16_t head, Walk& walk);
  const char* walk_indirect(const Desc& table, Walk& walk);
  const char* add(const Desc& desc, Walk& walk);
  Desc fetch(uint16_t index) const;
  bool ask_for_kick();
  void spare_kicks();

  Counters& counters_;
  OnFault on_fault_;
  sys::Fd call_;
  sys::Fd err_;

  const Memory* memory_ = nullptr;
  VringLayout ring_;
  bool indirect_ = false;
  bool event_idx_ = false;
  uint64_t run_ = 0;
  const char* fault_ = nullptr;

  uint16_t next_avail_ = 0;
  uint16_t seen_avail_ = 0;  // the guest's index as last loaded
  uint16_t used_idx_ = 0;
  bool used_known_ = false;
  uint32_t unsignalled_ = 0;  // pushes since the last decision to notify
  bool first_flush_ = true;
  std::vector<bool> in_flight_;

  Watch watch_;
  bool in_round_ = false;
  unsigned round_chains_ = 0;
  uint64_t round_bytes_ = 0;

  Chain::Parts parts_;               // of the chain being walked
  std::vector<Chain::Parts> spare_;  // vectors that came back
  std::vector<std::byte> table_;     // private copy of an indirect table
  Chain::Parts table_parts_;
};

}  // namespace turnbox::vhost
