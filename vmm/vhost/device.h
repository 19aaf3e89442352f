// What a vhost-user device has to say about itself, and what it gets: kicked queues and popped chains.
//
// The back end (backend.h) knows rings, memory and messages and no device; a Device knows its protocol and
// neither sockets nor rings. All calls come from the one thread that runs the back end's event loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "vmm/vhost/queue.h"

namespace turnbox::vhost {

class Device {
 public:
  virtual ~Device() = default;

  virtual const char* name() const = 0;  // for log lines: «fs:workspace», «vsock»
  virtual uint64_t features() const {
    return 0;
  }  // device-type feature bits only (below 24); the back end adds
     // INDIRECT_DESC, EVENT_IDX, VERSION_1, PROTOCOL_FEATURES
  virtual unsigned queue_count() const = 0;
  virtual uint16_t max_queue_size() const { return 1024; }

  // Device configuration space. Empty: protocol feature CONFIG is not offered (virtio-fs: QEMU 7.1 to 8.0
  // crash on it). vsock must have it: 8 bytes, the guest CID.
  virtual std::span<const std::byte> config() const { return {}; }

  // Queue `index` was kicked, or has work left from an earlier bounded round. Pops chains with queue.pop()
  // until it is empty or `queue.round_over()`; every popped chain is pushed back exactly once, now or later.
  // May stop earlier (a receive queue with nothing to send); then only a kick or the device itself brings it
  // back.
  virtual void serve(unsigned index, Queue& queue) = 0;

  // How long an empty ring of this queue is watched for its next entry before the guest has to kick for it:
  // at most so long, less where watching has not paid (watch.h). 0 where entries do not follow each other.
  virtual std::chrono::microseconds patience(unsigned index) const {
    return (void)index, std::chrono::microseconds(0);
  }

  // The queue started (ring addresses, kick and enable are there) or stopped. `queue` stays valid until
  // stopped(). Inside stopped() the memory is still mapped: push back what is held, for a chain that is
  // dropped is lost to the guest. Afterwards no chain of it may be touched. A new memory table stops and
  // starts every running queue; the session goes on.
  virtual void started(unsigned index, Queue& queue) { (void)index, (void)queue; }
  virtual void stopped(unsigned index) { (void)index; }

  // The front end went away, or RESET_DEVICE: all state of the guest's session is dropped.
  virtual void reset() = 0;
};

}  // namespace turnbox::vhost
