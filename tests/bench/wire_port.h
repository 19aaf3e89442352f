// How FUSE messages of the wire bench reach a server: over a ring of a real daemon, or straight into a device
// in this process. Slots are laid out once; to post a message costs a handful of stores.
//
// A slot is one message in flight: its request, room for its reply's fixed part, and 1 MiB of pages for what
// is read or written, one descriptor a page as a guest's kernel has it.
#pragma once

#include <linux/fuse.h>

#include <deque>
#include <span>
#include <vector>

#include "fs/virtiofs/device.h"
#include "tests/support/fake_front_end.h"

namespace turnbox::bench {

inline constexpr size_t kPage = 4096;
inline constexpr size_t kMaxPayload = 1 << 20;

struct Slot {
  std::byte* request;  // fuse_in_header, then the arguments
  std::byte* reply;    // fuse_out_header, then the fixed part
  std::byte* pages;
};

struct Shape {
  size_t request = 0;  // bytes with the header
  size_t reply = 0;    // the same; 0: a message without a reply
  size_t payload = 0;  // bytes in the pages
  enum class Way { none, to_server, from_server } way = Way::none;
};

class Port {
 public:
  virtual ~Port() = default;
  unsigned slots() const { return static_cast<unsigned>(slots_.size()); }
  Slot& slot(unsigned index) { return slots_[index]; }
  virtual void submit(unsigned slot, const Shape& shape) = 0;
  // The slot of a message that was answered; waits for one.
  virtual unsigned wait() = 0;
  // Whether wait() looks for a while before it sleeps: a guest with work to do against one with nothing else.
  virtual void set_patience(bool looks_first) { (void)looks_first; }

 protected:
  std::vector<Slot> slots_;
};

// Queue 1 of a front end, whose rings run. Indirect descriptors and event indices, as Linux uses them.
class RingPort final : public Port {
 public:
  RingPort(support::FakeFrontEnd& front_end, unsigned slots);
  void submit(unsigned slot, const Shape& shape) override;
  unsigned wait() override;
  void set_patience(bool looks_first) override { looks_first_ = looks_first; }

 private:
  struct Wiring {
    support::Desc* table;
    uint64_t table_gpa, request_gpa, reply_gpa, pages_gpa;
  };
  bool take(unsigned& slot);

  support::FakeRing& ring_;
  std::vector<Wiring> wiring_;
  std::byte *desc_, *avail_, *used_;
  uint16_t avail_idx_ = 0, used_idx_ = 0;
  bool looks_first_ = true;
};

// A device in this process: every chain is served inside submit().
class DirectPort final : public Port {
 public:
  DirectPort(virtiofs::Device& device, unsigned slots);
  void submit(unsigned slot, const Shape& shape) override;
  unsigned wait() override;

 private:
  class OneChain;
  virtiofs::Device& device_;
  std::vector<std::byte> memory_;
  vhost::Chain::Parts parts_;
  std::deque<unsigned> done_;
};

}  // namespace turnbox::bench
