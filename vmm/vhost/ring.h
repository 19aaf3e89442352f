// One queue of a session: what the messages configured, its kick descriptor, and its rounds of service.
//
// A ring runs when it has a size, addresses, a kick descriptor, is enabled, and memory and features are
// there, in whatever order they came. Owned by the session (shared only so that a handler in flight can see
// that it ended). Invariants:
//  1. device.started() and device.stopped() alternate; stopped() comes before the memory goes.
//  2. At most one round of a ring is waiting in the event loop, so rings share the loop by turns.
//  3. While it runs and is not broken, exactly one wait on the kick descriptor is outstanding.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <memory>
#include <optional>

#include "vmm/vhost/device.h"
#include "vmm/vhost/messages.h"
#include "vmm/vhost/vring.h"

namespace turnbox::vhost {

class Ring : public std::enable_shared_from_this<Ring> {
 public:
  Ring(boost::asio::io_context& io, Device& device, unsigned index, Counters& counters,
       Vring::OnFault on_fault);

  // Each refuses what is out of range; those that would change a running ring's shape refuse that too.
  sys::Status set_size(uint32_t size);
  sys::Status set_address(const RingAddress& address, const Memory& memory);
  sys::Status set_base(uint32_t next_avail);
  sys::Status set_kick(sys::Fd fd);
  sys::Status set_call(sys::Fd fd);  // empty: none
  sys::Status set_err(sys::Fd fd);
  void set_enabled(bool enabled) { enabled_ = enabled; }

  // Starts the ring if nothing is missing. An error: its addresses do not fit this memory.
  sys::Status start_if_ready(const Memory& memory, uint64_t features);
  // The device lets go of the ring; configuration and indices stay.
  void pause();
  // GET_VRING_BASE: pauses, drops kick and call, and tells the next available index.
  uint16_t end();
  // RESET_DEVICE: ends, and forgets all that was configured but the error descriptor, which a front end
  // sends once a connection.
  void reset();
  // The ring was paused for this memory; if it does not hold the ring's areas any more, that is a fault,
  // which ends when memory with them comes.
  void report_if_unmapped(const Memory& memory);

  bool running() const { return vring_.running(); }

 private:
  sys::Result<VringLayout> translate(const Memory& memory) const;
  void wait_for_kick();
  void kicked();
  void serve();
  void serve_soon();

  boost::asio::io_context& io_;
  Device& device_;
  const unsigned index_;
  Vring vring_;

  uint32_t size_ = 0;
  std::optional<RingAddress> address_;
  bool enabled_ = false;
  std::optional<boost::asio::posix::stream_descriptor> kick_;
  uint64_t waits_ = 0;  // numbers the waits: one that was cancelled too late is recognised
  bool round_waiting_ = false;
};

}  // namespace turnbox::vhost
