// What one front end negotiated and configured: the meaning of vhost-user messages, without the socket.
//
// Made when a front end connects, destroyed when it leaves; the device is reset at the end. Messages may come
// in any order: a ring starts as soon as nothing it needs is missing (ring.h). A refused message leaves the
// state as it was.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "vmm/vhost/receiver.h"
#include "vmm/vhost/ring.h"

namespace turnbox::vhost {

class Session {
 public:
  using OnFault = std::function<void(unsigned queue, const char* rule)>;

  Session(boost::asio::io_context& io, Device& device, Counters& counters, const OnFault& on_fault);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The reply's payload for a request that has one, else empty. The message's shape was checked.
  sys::Result<std::optional<sys::Bytes>> handle(Message& message);

  bool reply_ack() const { return (protocol_ & kProtocolReplyAck) != 0; }

 private:
  using Reply = std::optional<sys::Bytes>;

  uint64_t offered_features() const;
  uint64_t offered_protocol() const;
  sys::Result<Ring*> ring_at(uint64_t index);
  sys::Status start_ready_rings();

  sys::Status set_features(uint64_t features);
  sys::Status set_protocol(uint64_t features);
  sys::Status set_mem_table(sys::ByteSpan payload, std::span<const sys::Fd> fds);
  sys::Result<sys::Bytes> mem_slots() const;
  sys::Status add_region(const Region& region, const sys::Fd& fd);
  sys::Status remove_region(const Region& region);
  sys::Status reset_device();
  sys::Status needs(uint64_t protocol_feature, const char* name) const;
  sys::Status set_ring_state(Request request, RingState state);
  sys::Status set_ring_address(const RingAddress& address);
  sys::Status set_ring_fd(Request request, uint64_t value, std::vector<sys::Fd> fds);
  sys::Result<sys::Bytes> end_ring(RingState state);
  sys::Result<sys::Bytes> config(sys::ByteSpan payload) const;
  sys::Status set_config(sys::ByteSpan payload) const;
  void stop_rings();

  Device& device_;
  uint64_t features_ = 0;
  uint64_t protocol_ = 0;
  Memory memory_;
  std::vector<std::shared_ptr<Ring>> rings_;  // after memory_: they go first
};

}  // namespace turnbox::vhost
