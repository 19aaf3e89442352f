// A vhost-user front end with a guest's driver in it: drives a real daemon over its real socket, rings and
// memory.
//
// The good road in three lines:
//   FakeFrontEnd fe(path, {.queues = 2});
//   fe.handshake();
//   auto reply = fe.request(1, request_bytes, 4096);        // Completion{head, len, bytes}
// Off the road, for hostile cases: send() and send_bytes() take anything, ring(q) gives raw cells, closed()
// tells whether the daemon hung up. What must happen and does not is thrown (std::runtime_error), and fails
// the test.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/fake_ring.h"
#include "vmm/sys/socket.h"

namespace turnbox::support {

struct FrontEndOptions {
  size_t memory = 16 << 20;
  unsigned queues = 1;
  uint16_t queue_size = 64;
  uint64_t features = vhost::kFeatureVersion1 | vhost::kFeatureProtocol | vhost::kFeatureIndirect |
                      vhost::kFeatureEventIdx;  // acknowledged of what is offered
  uint64_t protocol = vhost::kProtocolMq | vhost::kProtocolReplyAck | vhost::kProtocolConfig |
                      vhost::kProtocolResetDevice | vhost::kProtocolMemSlots;  // the same
  int seals = GuestMemory::kQemuSeals;
};

struct WireReply {
  vhost::Header header;
  sys::Bytes payload;
};

struct Completion {
  uint32_t head;
  uint32_t len;      // used.len
  sys::Bytes bytes;  // the first `len` writable bytes
};

class FakeFrontEnd {
 public:
  explicit FakeFrontEnd(const std::string& path, FrontEndOptions options = {});
  explicit FakeFrontEnd(sys::Fd connected, FrontEndOptions options = {});
  FakeFrontEnd(const FakeFrontEnd&) = delete;
  FakeFrontEnd& operator=(const FakeFrontEnd&) = delete;

  // Everything, in the order QEMU 7.2 uses; afterwards every ring runs. Or step by step:
  void handshake();
  void negotiate();                                     // GET/SET_(PROTOCOL_)FEATURES, SET_OWNER
  void share_memory();                                  // SET_MEM_TABLE with the one region
  void set_up_ring(unsigned queue, uint16_t base = 0);  // CALL, ERR, NUM, BASE, ADDR, KICK
  void enable_ring(unsigned queue, bool enable = true);

  // One chain with these bytes to read and `writable` bytes of room; kicks if the device asks for kicks.
  uint16_t post(unsigned queue, sys::ByteSpan readable, size_t writable);
  // The same with the split between descriptors chosen (0 parts on either side are fine).
  uint16_t post(unsigned queue, std::span<const sys::ByteSpan> readable, std::span<const size_t> writable,
                bool indirect = false);
  // The next used chain of the queue; its buffers are free again. Empty when none came in time.
  std::optional<Completion> next(unsigned queue, Deadline within = kDeadline);
  // post(), then the next used chain, which must be this one.
  Completion request(unsigned queue, sys::ByteSpan readable, size_t writable);

  GuestMemory& memory() { return memory_; }
  FakeRing& ring(unsigned queue) { return rings_.at(queue); }
  uint64_t features() const { return features_; }  // as negotiated
  uint64_t protocol() const { return protocol_; }

  // Messages. flags 1: version 1.
  void send(vhost::Request request, sys::ByteSpan payload = {}, std::span<const int> fds = {},
            uint32_t flags = 1);
  void send_bytes(sys::ByteSpan bytes, std::span<const int> fds = {});
  std::optional<WireReply> receive(
      Deadline within = kDeadline);  // empty: nothing came, or the daemon hung up
  // Sends with need_reply and returns the acknowledgement (0: done). Empty: the daemon hung up.
  std::optional<uint64_t> ack(vhost::Request request, sys::ByteSpan payload = {},
                              std::span<const int> fds = {});
  uint64_t get_u64(vhost::Request request);
  bool closed(Deadline within = kDeadline);  // the daemon hung up within the time
  int socket() const { return socket_.get(); }

  // Payloads.
  static sys::Bytes u64(uint64_t value);
  static sys::Bytes ring_state(uint32_t index, uint32_t value);
  static sys::Bytes mem_table(std::span<const vhost::Region> regions);
  static sys::Bytes one_region(const vhost::Region& region);
  sys::Bytes ring_address(unsigned queue);

 private:
  void must(vhost::Request request, sys::ByteSpan payload, std::span<const int> fds = {});

  FrontEndOptions options_;
  sys::Fd socket_;
  GuestMemory memory_;
  std::vector<FakeRing> rings_;
  uint64_t features_ = 0;
  uint64_t protocol_ = 0;
  struct Posted {
    std::vector<Part> parts;
  };
  std::vector<std::vector<Posted>> posted_;  // by queue, by head
};

}  // namespace turnbox::support
