#include "tests/support/fake_front_end.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

namespace turnbox::support {

using vhost::Request;

namespace {

sys::Fd connect_or_give_up(const std::string& path) {
  auto socket = sys::connect_unix(path);
  if (!socket) give_up(socket.error().text);
  return std::move(*socket);
}

}  // namespace

FakeFrontEnd::FakeFrontEnd(const std::string& path, FrontEndOptions options)
    : FakeFrontEnd(connect_or_give_up(path), options) {}

FakeFrontEnd::FakeFrontEnd(sys::Fd connected, FrontEndOptions options)
    : options_(options), socket_(std::move(connected)), memory_(options.memory, options.seals) {
  for (unsigned i = 0; i < options_.queues; ++i) {
    rings_.emplace_back(memory_, options_.queue_size, (options_.features & vhost::kFeatureEventIdx) != 0);
    posted_.emplace_back(options_.queue_size);
  }
}

void FakeFrontEnd::handshake() {
  negotiate();
  share_memory();
  for (unsigned i = 0; i < rings_.size(); ++i) set_up_ring(i);
  if ((features_ & vhost::kFeatureProtocol) == 0) return;
  for (unsigned i = 0; i < rings_.size(); ++i) enable_ring(i);
}

void FakeFrontEnd::negotiate() {
  features_ = get_u64(Request::get_features) & options_.features;
  if ((features_ & vhost::kFeatureProtocol) != 0) {
    protocol_ = get_u64(Request::get_protocol_features) & options_.protocol;
    send(Request::set_protocol_features, u64(protocol_));
    if (get_u64(Request::get_queue_num) < rings_.size()) give_up("the daemon has fewer queues than the test");
  }
  send(Request::set_owner);
  must(Request::set_features, u64(features_));
}

void FakeFrontEnd::share_memory() {
  const vhost::Region region = memory_.region();
  const int fd = memory_.fd();
  must(Request::set_mem_table, mem_table(std::span(&region, 1)), std::span(&fd, 1));
}

void FakeFrontEnd::set_up_ring(unsigned queue, uint16_t base) {
  FakeRing& ring = rings_.at(queue);
  const int kick = ring.kick_fd(), call = ring.call_fd(), err = ring.err_fd();
  must(Request::set_vring_num, ring_state(queue, ring.size()));
  must(Request::set_vring_base, ring_state(queue, base));
  must(Request::set_vring_addr, ring_address(queue));
  must(Request::set_vring_err, u64(queue), std::span(&err, 1));
  must(Request::set_vring_kick, u64(queue), std::span(&kick, 1));
  must(Request::set_vring_call, u64(queue), std::span(&call, 1));
}

void FakeFrontEnd::enable_ring(unsigned queue, bool enable) {
  must(Request::set_vring_enable, ring_state(queue, enable ? 1 : 0));
}

uint16_t FakeFrontEnd::post(unsigned queue, sys::ByteSpan readable, size_t writable) {
  std::vector<sys::ByteSpan> reads;
  std::vector<size_t> writes;
  if (!readable.empty()) reads.push_back(readable);
  if (writable > 0) writes.push_back(writable);
  return post(queue, reads, writes);
}

uint16_t FakeFrontEnd::post(unsigned queue, std::span<const sys::ByteSpan> readable,
                            std::span<const size_t> writable, bool indirect) {
  FakeRing& to = ring(queue);
  Posted posted;
  for (const sys::ByteSpan bytes : readable) {
    const uint64_t gpa = memory_.take(bytes.size());
    std::copy(bytes.begin(), bytes.end(), memory_.at(gpa, bytes.size()).begin());
    posted.parts.push_back({gpa, static_cast<uint32_t>(bytes.size()), false});
  }
  for (const size_t size : writable)
    posted.parts.push_back({memory_.take(size), static_cast<uint32_t>(size), true});
  const uint16_t head = indirect ? to.add_indirect(posted.parts) : to.add(posted.parts);
  posted_[queue][head] = std::move(posted);
  if (to.kick_wanted()) to.kick();
  return head;
}

std::optional<Completion> FakeFrontEnd::next(unsigned queue, Deadline within) {
  const auto used = ring(queue).wait_used(within);
  if (!used) return std::nullopt;
  if (used->head >= posted_[queue].size()) give_up("the daemon used a head beyond the ring");
  const Posted posted = std::exchange(posted_[queue][used->head], {});
  if (posted.parts.empty()) give_up("the daemon used a chain that was not in flight");
  Completion done{used->head, used->len, {}};
  for (const Part& part : posted.parts) {
    if (part.writable) {
      const size_t left = used->len - done.bytes.size();
      sys::append(done.bytes, memory_.at(part.gpa, std::min<size_t>(part.len, left)));
    }
    memory_.give(part.gpa, part.len);
  }
  if (done.bytes.size() != used->len) give_up("used.len is more than the chain could hold");
  return done;
}

Completion FakeFrontEnd::request(unsigned queue, sys::ByteSpan readable, size_t writable) {
  const uint16_t head = post(queue, readable, writable);
  auto done = next(queue);
  if (!done) give_up("the daemon did not use the chain in time");
  if (done->head != head) give_up("the daemon used another chain than the one posted");
  return std::move(*done);
}

void FakeFrontEnd::send(Request request, sys::ByteSpan payload, std::span<const int> fds, uint32_t flags) {
  sys::Bytes bytes;
  sys::append_le(bytes,
                 vhost::Header{static_cast<uint32_t>(request), flags, static_cast<uint32_t>(payload.size())});
  sys::append(bytes, payload);
  send_bytes(bytes, fds);
}

void FakeFrontEnd::send_bytes(sys::ByteSpan bytes, std::span<const int> fds) {
  auto sent = sys::send_with_fds(socket_.get(), bytes, fds);
  if (!sent) give_up(sent.error().text);
}

std::optional<WireReply> FakeFrontEnd::receive(Deadline within) {
  const auto fill = [&](std::span<std::byte> into) {
    while (!into.empty()) {
      pollfd wait{socket_.get(), POLLIN, 0};
      if (::poll(&wait, 1, static_cast<int>(within.count())) != 1) return false;
      const ssize_t n = ::recv(socket_.get(), into.data(), into.size(), 0);
      if (n <= 0) return false;
      into = into.subspan(static_cast<size_t>(n));
    }
    return true;
  };
  WireReply reply;
  if (!fill(std::as_writable_bytes(std::span(&reply.header, 1)))) return std::nullopt;
  reply.payload.resize(reply.header.size);
  if (!fill(reply.payload)) return std::nullopt;
  if (reply.header.flags != (vhost::kFlagVersion | vhost::kFlagReply)) give_up("a reply has wrong flags");
  return reply;
}

std::optional<uint64_t> FakeFrontEnd::ack(Request request, sys::ByteSpan payload, std::span<const int> fds) {
  send(request, payload, fds, vhost::kFlagVersion | vhost::kFlagNeedReply);
  const auto reply = receive();
  if (!reply) return std::nullopt;
  if (reply->header.request != static_cast<uint32_t>(request) || reply->payload.size() != 8) {
    give_up("an acknowledgement has another shape");
  }
  return sys::load_le<uint64_t>(reply->payload.data());
}

// With REPLY_ACK the daemon's word is awaited; without it, a later failure tells.
void FakeFrontEnd::must(Request request, sys::ByteSpan payload, std::span<const int> fds) {
  if ((protocol_ & vhost::kProtocolReplyAck) == 0) return send(request, payload, fds);
  if (ack(request, payload, fds) != uint64_t{0}) {
    give_up("the daemon refused request " + std::to_string(static_cast<uint32_t>(request)));
  }
}

uint64_t FakeFrontEnd::get_u64(Request request) {
  send(request);
  const auto reply = receive();
  if (!reply || reply->payload.size() != 8) give_up("no 64-bit reply came");
  return sys::load_le<uint64_t>(reply->payload.data());
}

bool FakeFrontEnd::closed(Deadline within) {
  pollfd wait{socket_.get(), POLLIN, 0};
  if (::poll(&wait, 1, static_cast<int>(within.count())) != 1) return false;
  char byte;
  return ::recv(socket_.get(), &byte, 1, MSG_PEEK) <= 0;  // 0, or a reset when it left bytes unread
}

sys::Bytes FakeFrontEnd::u64(uint64_t value) {
  sys::Bytes bytes;
  sys::append_le(bytes, value);
  return bytes;
}

sys::Bytes FakeFrontEnd::ring_state(uint32_t index, uint32_t value) {
  sys::Bytes bytes;
  sys::append_le(bytes, vhost::RingState{index, value});
  return bytes;
}

sys::Bytes FakeFrontEnd::mem_table(std::span<const vhost::Region> regions) {
  sys::Bytes bytes;
  sys::append_le<uint64_t>(bytes, regions.size());
  for (const auto& region : regions) sys::append_le(bytes, region);
  return bytes;
}

sys::Bytes FakeFrontEnd::one_region(const vhost::Region& region) {
  sys::Bytes bytes;
  sys::append_le(bytes, vhost::OneRegion{0, region});
  return bytes;
}

sys::Bytes FakeFrontEnd::ring_address(unsigned queue) {
  const FakeRing& ring = rings_.at(queue);
  sys::Bytes bytes;
  sys::append_le(bytes, vhost::RingAddress{queue, 0, memory_.uva(ring.desc()), memory_.uva(ring.used()),
                                           memory_.uva(ring.avail()), 0});
  return bytes;
}

}  // namespace turnbox::support
