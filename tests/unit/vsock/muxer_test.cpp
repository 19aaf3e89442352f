// The muxer without rings: packets in, packets out, socket pairs as hosts. Short time-outs instead of
// waiting.
#include "vmm/vsock/muxer.h"

#include <sys/socket.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>

#include "vmm/sys/bytes.h"
#include "vmm/sys/socket.h"

using namespace turnbox;
using namespace turnbox::vsock;
using namespace std::chrono_literals;

namespace {

constexpr uint64_t kCid = 3;
constexpr uint32_t kBuffer = 256 * 1024;

struct Packet {
  Header header;
  std::string payload;
};

MuxerOptions options() {
  MuxerOptions options;
  options.guest_cid = kCid;
  options.allowed_ports = {1024};
  options.limits.timeouts = {.request = 20ms, .shutdown = 20ms, .coalesce = 100us};
  return options;
}

// A guest and a broker around one muxer.
struct Fixture {
  explicit Fixture(MuxerOptions with = options())
      : muxer(io, std::move(with), [this](const Dial& dial) -> sys::Result<sys::Fd> {
          if (broker_busy) return sys::fail(sys::ErrorKind::unavailable, "busy");
          dials.push_back(dial);
          return keep(sys::socket_pair(SOCK_STREAM).value());
        }) {
    muxer.set_guest_up(true);
  }

  sys::Fd keep(std::pair<sys::Fd, sys::Fd> pair) {
    BOOST_REQUIRE(sys::set_nonblocking(pair.first.get()));
    host = std::move(pair.second);
    return std::move(pair.first);
  }

  void connect(uint32_t port) { muxer.connect(keep(sys::socket_pair(SOCK_STREAM).value()), port); }

  void send(Op op, uint32_t guest_port, uint32_t host_port, std::string payload = {}, Header extra = {}) {
    extra.src_cid = kCid;
    extra.dst_cid = kHostCid;
    extra.src_port = guest_port;
    extra.dst_port = host_port;
    extra.op = op;
    if (extra.buf_alloc == 0) extra.buf_alloc = kBuffer;
    extra.len = static_cast<uint32_t>(payload.size());
    const iovec part{payload.data(), payload.size()};
    muxer.receive(extra, {&part, 1});
  }

  // The next packet for the guest; runs the loop for at most `patience`.
  std::optional<Packet> next(std::chrono::milliseconds patience = 2s) {
    const auto until = std::chrono::steady_clock::now() + patience;
    std::array<char, 4096> room;
    const iovec part{room.data(), room.size()};
    do {
      if (muxer.has_output()) {
        if (const auto header = muxer.next_packet({&part, 1}))
          return Packet{*header, std::string(room.data(), header->len)};
      }
      io.restart();
      io.run_one_for(5ms);
    } while (std::chrono::steady_clock::now() < until);
    return std::nullopt;
  }
  Op next_op() {
    const auto packet = next();
    return packet ? packet->header.op : Op::invalid;
  }
  // What the guest is told to be shut, once both ways are (RCV may be told before SEND).
  uint32_t shutdown_flags() {
    for (;;) {
      const auto packet = next();
      if (!packet || packet->header.op != Op::shutdown) return 0;
      if (packet->header.flags == kShutdownBoth) return packet->header.flags;
    }
  }
  bool quiet() { return !next(5ms).has_value(); }

  // Opens a stream that the guest began.
  void open_from_guest(uint32_t guest_port = 5000) {
    send(Op::request, guest_port, 1024);
    BOOST_REQUIRE((next_op() == Op::response));
  }

  void host_says(std::string_view text) { BOOST_REQUIRE(sys::write_full(host.get(), sys::as_bytes(text))); }
  std::string host_hears() {
    std::array<char, 8192> bytes;
    const ssize_t n = ::recv(host.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    return n > 0 ? std::string(bytes.data(), static_cast<size_t>(n)) : n == 0 ? "<end>" : "<nothing>";
  }

  boost::asio::io_context io;
  std::vector<Dial> dials;
  bool broker_busy = false;
  sys::Fd host;
  Muxer muxer;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(muxer)

BOOST_AUTO_TEST_CASE(guest_request_is_dialled_and_answered) {
  Fixture f;
  f.send(Op::request, 5000, 1024);
  const auto answer = f.next();
  BOOST_REQUIRE(answer);
  BOOST_TEST((answer->header.op == Op::response));
  BOOST_TEST(answer->header.src_port == 1024U);
  BOOST_TEST(answer->header.dst_port == 5000U);
  BOOST_TEST(answer->header.src_cid == kHostCid);
  BOOST_TEST(answer->header.dst_cid == kCid);
  BOOST_TEST(answer->header.buf_alloc == kBuffer);
  BOOST_REQUIRE(f.dials.size() == 1U);
  BOOST_TEST(f.dials[0].port == 1024U);
  BOOST_TEST(f.dials[0].guest_port == 5000U);
  f.send(Op::rw, 5000, 1024, "ping");
  BOOST_TEST(f.host_hears() == "ping");
  f.host_says("pong");
  const auto data = f.next();
  BOOST_REQUIRE(data);
  BOOST_TEST((data->header.op == Op::rw));
  BOOST_TEST(data->payload == "pong");
  BOOST_TEST(data->header.fwd_cnt == 4U);
}

BOOST_AUTO_TEST_CASE(busy_broker_refuses) {
  Fixture f;
  f.broker_busy = true;
  f.send(Op::request, 5000, 1024);
  BOOST_TEST((f.next_op() == Op::rst));
  BOOST_TEST(f.muxer.idle());
}

BOOST_AUTO_TEST_CASE(connect_says_ok_only_after_the_response) {
  Fixture f;
  f.connect(1025);
  const auto request = f.next();
  BOOST_REQUIRE(request);
  BOOST_TEST((request->header.op == Op::request));
  BOOST_TEST(request->header.dst_port == 1025U);
  BOOST_TEST(f.host_hears() == "<nothing>");
  f.send(Op::response, 1025, request->header.src_port);
  BOOST_TEST(f.host_hears() == "OK " + std::to_string(request->header.src_port) + "\n");
}

BOOST_AUTO_TEST_CASE(connect_while_the_guest_is_down_closes_at_once) {
  Fixture f;
  f.muxer.set_guest_up(false);
  f.connect(1025);
  BOOST_TEST(f.host_hears() == "<end>");
  BOOST_TEST(f.quiet());
}

BOOST_AUTO_TEST_CASE(unanswered_request_times_out_with_a_reset) {
  Fixture f;
  f.connect(1025);
  BOOST_TEST((f.next_op() == Op::request));
  BOOST_TEST((f.next_op() == Op::rst));
  BOOST_TEST(f.host_hears() == "<end>");
  BOOST_TEST(f.muxer.idle());
}

BOOST_AUTO_TEST_CASE(host_that_gives_up_before_the_response_resets_the_guest) {
  auto with = options();
  with.limits.timeouts.request = 1h;
  Fixture f(std::move(with));
  f.connect(1025);
  BOOST_TEST((f.next_op() == Op::request));
  f.host.reset();
  BOOST_TEST((f.next_op() == Op::rst));
  BOOST_TEST(f.muxer.idle());
}

BOOST_AUTO_TEST_CASE(host_end_is_a_shutdown_for_sending_only) {
  Fixture f;
  f.open_from_guest();
  f.host_says("last");
  ::shutdown(f.host.get(), SHUT_WR);
  BOOST_TEST(f.next().value().payload == "last");
  const auto packet = f.next();
  BOOST_REQUIRE(packet);
  BOOST_TEST((packet->header.op == Op::shutdown));
  BOOST_TEST(packet->header.flags == kShutdownSend);
  f.send(Op::rw, 5000, 1024, "still heard");
  BOOST_TEST(f.host_hears() == "still heard");
}

BOOST_AUTO_TEST_CASE(guest_shutdown_for_sending_leaves_the_other_way_open) {
  Fixture f;
  f.open_from_guest();
  f.send(Op::rw, 5000, 1024, "last");
  f.send(Op::shutdown, 5000, 1024, {}, {.flags = kShutdownSend});
  BOOST_TEST(f.host_hears() == "last");
  BOOST_TEST(f.host_hears() == "<end>");
  f.host_says("answer");
  BOOST_TEST(f.next().value().payload == "answer");
}

BOOST_AUTO_TEST_CASE(guest_shutdown_for_receiving_makes_the_host_deaf_to_it) {
  Fixture f;
  f.open_from_guest();
  f.send(Op::shutdown, 5000, 1024, {}, {.flags = kShutdownReceive});
  BOOST_TEST(::send(f.host.get(), "x", 1, MSG_NOSIGNAL) == -1);
  f.send(Op::rw, 5000, 1024, "still heard");
  BOOST_TEST(f.host_hears() == "still heard");
}

BOOST_AUTO_TEST_CASE(full_shutdown_is_answered_with_one_reset) {
  Fixture f;
  f.open_from_guest();
  f.send(Op::shutdown, 5000, 1024, {}, {.flags = kShutdownBoth});
  BOOST_TEST((f.next_op() == Op::rst));
  BOOST_TEST(f.host_hears() == "<end>");
  BOOST_TEST(f.quiet());
  BOOST_TEST(f.muxer.idle());
}

BOOST_AUTO_TEST_CASE(both_ends_one_after_the_other_close_the_stream) {
  Fixture f;
  f.open_from_guest();
  f.send(Op::shutdown, 5000, 1024, {}, {.flags = kShutdownSend});
  ::shutdown(f.host.get(), SHUT_WR);
  BOOST_TEST(f.shutdown_flags() == kShutdownBoth);
  f.send(Op::rst, 5000, 1024);
  BOOST_TEST(f.quiet());
  BOOST_TEST(f.muxer.idle());
}

BOOST_AUTO_TEST_CASE(shutdown_without_a_reset_from_the_guest_times_out) {
  Fixture f;
  f.open_from_guest();
  f.host.reset();
  BOOST_TEST(f.shutdown_flags() == kShutdownBoth);
  BOOST_TEST((f.next_op() == Op::rst));
  BOOST_TEST(f.muxer.idle());
}

BOOST_AUTO_TEST_CASE(closed_host_whose_bytes_the_guest_does_not_take_times_out) {
  Fixture f;
  f.send(Op::request, 5000, 1024, {}, {.buf_alloc = 4});
  BOOST_TEST((f.next_op() == Op::response));
  f.host_says("more than four bytes");
  BOOST_TEST(f.next().value().payload == "more");
  BOOST_TEST((f.next_op() == Op::credit_request));
  f.host.reset();
  const auto packet = f.next();
  BOOST_REQUIRE(packet);
  BOOST_TEST((packet->header.op == Op::shutdown));
  BOOST_TEST(packet->header.flags == kShutdownReceive);
  BOOST_TEST((f.next_op() == Op::rst));
  BOOST_TEST(f.muxer.idle());
}

BOOST_AUTO_TEST_CASE(host_that_stopped_reading_is_a_shutdown_for_receiving) {
  Fixture f;
  f.open_from_guest();
  ::shutdown(f.host.get(), SHUT_RD);
  f.send(Op::rw, 5000, 1024, "lost");
  const auto packet = f.next();
  BOOST_REQUIRE(packet);
  BOOST_TEST((packet->header.op == Op::shutdown));
  BOOST_TEST(packet->header.flags == kShutdownReceive);
  f.host_says("still said");
  BOOST_TEST(f.next().value().payload == "still said");
}

BOOST_AUTO_TEST_CASE(what_the_guest_sent_before_it_closed_reaches_a_slow_host) {
  Fixture f;
  f.open_from_guest();
  std::string sent;
  for (int i = 0; i < 4; ++i) {  // more than a unix socket takes at once
    const std::string piece(64 * 1024, static_cast<char>('a' + i));
    f.send(Op::rw, 5000, 1024, piece);
    sent += piece;
  }
  f.send(Op::shutdown, 5000, 1024, {}, {.flags = kShutdownBoth});
  BOOST_TEST((f.next_op() == Op::rst));
  BOOST_TEST(f.muxer.connection_count() == 0U);
  BOOST_TEST(!f.muxer.idle());  // draining
  std::string heard;
  for (int i = 0; i < 1000 && heard.size() < sent.size(); ++i) {
    const std::string piece = f.host_hears();
    if (piece != "<nothing>") heard += piece;
    f.io.restart();
    f.io.run_one_for(1ms);
  }
  BOOST_TEST((heard == sent));
  BOOST_TEST(f.host_hears() == "<end>");
  BOOST_TEST(f.muxer.idle());
}

BOOST_AUTO_TEST_CASE(reset_of_the_session_frees_all_and_drains) {
  Fixture f;
  f.open_from_guest(5000);
  f.open_from_guest(5001);
  for (int i = 0; i < 4; ++i) f.send(Op::rw, 5001, 1024, std::string(64 * 1024, 'x'));
  bool idle_told = false;
  f.muxer.on_idle([&] { idle_told = true; });
  f.muxer.reset();
  BOOST_TEST(f.muxer.connection_count() == 0U);
  BOOST_TEST(!idle_told);
  f.host.reset();
  BOOST_TEST(f.quiet());
  BOOST_TEST(idle_told);
  BOOST_TEST(f.muxer.idle());
}

BOOST_AUTO_TEST_CASE(ended_streams_do_not_pile_up_when_the_guest_takes_nothing) {
  auto with = options();
  with.limits.requests_burst = 100'000;
  with.limits.resets = 64;
  Fixture f(std::move(with));
  for (uint32_t port = 0; port < 5'000; ++port) {
    f.send(Op::request, port, 1024);
    f.send(Op::rst, port, 1024);
    f.send(Op::rw, port, 1024, "stray");
  }
  size_t waiting = 0;
  while (f.next(1ms)) ++waiting;
  BOOST_TEST(waiting <= 32U);
  BOOST_TEST(f.muxer.counters().resets_dropped > 0U);
  BOOST_TEST(f.muxer.idle());
}

BOOST_AUTO_TEST_CASE(many_small_writes_travel_together) {
  auto with = options();
  with.limits.timeouts.coalesce = 50ms;
  Fixture f(std::move(with));
  f.open_from_guest();
  f.host_says("a");
  BOOST_TEST(f.next().value().payload == "a");  // the first one at once
  for (int i = 0; i < 20; ++i) f.host_says("b");
  BOOST_TEST(f.next().value().payload == std::string(20, 'b'));
}

BOOST_AUTO_TEST_CASE(credit_request_is_answered_and_credit_is_told_by_itself) {
  Fixture f;
  f.open_from_guest();
  f.send(Op::credit_request, 5000, 1024);
  f.send(Op::credit_request, 5000, 1024);
  BOOST_TEST((f.next_op() == Op::credit_update));  // one for both
  BOOST_TEST(f.quiet());
  f.send(Op::rw, 5000, 1024, std::string(64 * 1024, 'x'));
  const auto update = f.next();
  BOOST_REQUIRE(update);
  BOOST_TEST((update->header.op == Op::credit_update));
  BOOST_TEST(update->header.fwd_cnt == 64 * 1024U);
}

BOOST_AUTO_TEST_CASE(small_buffers_once_there_are_many_connections) {
  auto with = options();
  with.limits.many_connections = 2;
  Fixture f(std::move(with));
  f.open_from_guest(5000);
  f.open_from_guest(5001);
  f.send(Op::request, 5002, 1024);
  BOOST_TEST(f.next().value().header.buf_alloc == 64 * 1024U);
}

BOOST_AUTO_TEST_SUITE_END()
