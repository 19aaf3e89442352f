// One virtio-fs device: a directory of the tree, served to a hostile guest under one of two contracts.
//
// Owned by the daemon's main; runs on the thread that owns the tree. A request walks device → request (copied
// out once, checked) → one row of the opcode table → tree verb → reply, and nothing is kept of it afterwards.
//
// Invariants:
//  1. Nothing happens on the tree before it is sure that the reply has room.
//  2. A node id is an inode number and valid only while this session's lookup table holds it; 1 is the
//  device's root.
//  3. Guest bytes end no process: a breach is answered with an errno, counted, and logged at a limited rate.
// The rules, one by one: docs/HOSTILE_GUEST.md, «FUSE requests». The contracts:
// docs/decisions/0120-two-contracts.md.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "fs/tree/tree.h"
#include "vmm/vhost/device.h"

namespace turnbox::virtiofs {

enum class Contract : uint8_t {
  workspace,  // the guest owns it: writeback cache, no OPEN and RELEASE, life time by lookup count
  turn,       // the host changes it too: handles, no writeback, time-outs 0 wherever the host adds names
};

// What the daemon does with writes to files of a zone of use `log`. A call never keeps part of what it
// refused.
class EventLog {
 public:
  virtual ~EventLog() = default;
  // Appends whole lines; what follows the last newline waits for more of the same handle. EINVAL: a line that
  // is no JSON object or exceeds 64 KiB. Returns bytes.size().
  virtual fs::Expected<size_t> append(fs::Ino file, uint64_t handle, std::span<const std::byte> bytes) = 0;
  // The handle is closed; its unfinished line is dropped.
  virtual void closed(fs::Ino file, uint64_t handle) = 0;
};

struct Options {
  Contract contract = Contract::workspace;
  fs::Ino root = fs::kNoIno;         // a directory; node id 1
  std::string name;                  // for log lines: «fs:workspace»
  EventLog* events = nullptr;        // outlives the device; without one a log can only be read
  std::function<fs::Time()> now;     // for UTIME_NOW; CLOCK_REALTIME when empty
  uint64_t max_lookups = 8'000'000;  // nodes the guest may hold at once: ENFILE
  uint64_t long_timeout_s = 86'400;  // for names and attributes in zones of use `plain`
};                                   // open handles are limited by the tree's budget: ENFILE

struct Counters {
  uint64_t requests = 0;       // with a whole header
  uint64_t errors = 0;         // replies that carry an errno
  uint64_t malformed = 0;      // refused by the decoder: lengths, names, sizes
  uint64_t dropped = 0;        // consumed without a reply: no whole header, or no room for a reply header
  uint64_t before_init = 0;    // refused, the session had not begun
  uint64_t unknown_nodes = 0;  // ESTALE: a node id that the session does not hold
  uint64_t bad_handles = 0;    // EBADF
  uint64_t forgets_clamped = 0;
  uint64_t sessions = 0;  // INITs that were accepted
  uint64_t bytes_read = 0, bytes_written = 0;
};

class Server;

class Device final : public vhost::Device {
 public:
  Device(fs::Tree& tree, Options options);  // the tree outlives the device
  ~Device() override;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const char* name() const override;
  unsigned queue_count() const override { return 2; }  // hiprio and one request queue
  void serve(unsigned index, vhost::Queue& queue) override;
  // A guest's thread waits for nearly every answer, and asks the next thing soon after it. FORGETs can wait.
  std::chrono::microseconds patience(unsigned index) const override {
    return std::chrono::microseconds(index == 0 ? 0 : 150);
  }
  void reset() override;

  const Counters& counters() const;
  uint64_t lookups() const;       // nodes the guest holds now
  uint64_t open_handles() const;  // files and directories
  // Every counter, and the count of each opcode seen, by name («op_lookup»): for `fs.stats`.
  void each_counter(const std::function<void(const char* name, uint64_t value)>& visit) const;

 private:
  std::unique_ptr<Server> server_;
};

}  // namespace turnbox::virtiofs
