// docs/hostile-guest section 4, rule by rule, against the real daemon. A breach ends at most its own stream;
// the daemon lives on, which every case ends with.
#include <sys/socket.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <vector>

#include "tests/guest/vsock/vsock_daemon.h"
#include "vmm/sys/bytes.h"

namespace turnbox::vsock {
namespace {

constexpr uint32_t kPort = VsockGuest::kPort;

struct Fixture {
  VsockDaemon daemon;
  VsockGuest guest{daemon};

  // The stream got a reset, and only one; its host end is over; others are served.
  void check_reset(HostEnd& end) {
    guest.expect(Op::rst);
    BOOST_TEST(guest.quiet());
    BOOST_TEST(end.ended());
    BOOST_TEST(serves(daemon, guest));
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(hostile, Fixture)

// Rule 1: the header, and len.

BOOST_AUTO_TEST_CASE(header_shorter_than_44_bytes_is_dropped) {
  for (const size_t size : {1, 8, 43}) guest.send_bytes(sys::Bytes(size));
  BOOST_TEST(guest.quiet());
  BOOST_TEST(serves(daemon, guest));
  BOOST_TEST(daemon.end().at("malformed") == 3U);
}

BOOST_AUTO_TEST_CASE(len_beyond_the_chain_resets_the_stream) {
  HostEnd end = guest.open_from_guest(daemon);
  Header header = VsockGuest::header(Op::rw, kPort, 1024);
  header.len = 11;
  guest.send_as_is(header, "ten bytes!");
  check_reset(end);
}

BOOST_AUTO_TEST_CASE(len_beyond_64_kib_resets_the_stream) {
  HostEnd end = guest.open_from_guest(daemon);
  Header header = VsockGuest::header(Op::rw, kPort, 1024);
  header.len = kMaxPayload + 1;
  guest.send_as_is(header, std::string(kMaxPayload + 1, 'x'));
  check_reset(end);
}

BOOST_AUTO_TEST_CASE(len_of_32_bits_of_ones_resets_the_stream) {
  HostEnd end = guest.open_from_guest(daemon);
  Header header = VsockGuest::header(Op::rw, kPort, 1024);
  header.len = 0xffffffff;
  guest.send_as_is(header, "few");
  check_reset(end);
}

BOOST_AUTO_TEST_CASE(malformed_reset_is_not_answered) {
  Header header = VsockGuest::header(Op::rst, kPort, 1024);
  header.len = 100;
  guest.send_as_is(header);
  BOOST_TEST(guest.quiet());
  BOOST_TEST(serves(daemon, guest));
}

BOOST_AUTO_TEST_CASE(packet_of_64_kib_is_legal) {
  HostEnd end = guest.open_from_guest(daemon);
  guest.send(Op::rw, kPort, 1024, std::string(kMaxPayload, 'x'));
  BOOST_TEST(end.hear(kMaxPayload).size() == kMaxPayload);
}

// Rule 2: cids.

BOOST_AUTO_TEST_CASE(foreign_source_cid_is_dropped_and_counted) {
  HostEnd end = guest.open_from_guest(daemon);
  for (const uint64_t cid : {0ULL, 1ULL, 2ULL, 4ULL, 0x100000003ULL}) {
    Header header = VsockGuest::header(Op::rw, kPort, 1024);
    header.src_cid = cid;
    guest.send(header, "as another");
  }
  BOOST_TEST(guest.quiet());
  BOOST_TEST(end.quiet());
  BOOST_TEST(serves(daemon, guest));
  BOOST_TEST(daemon.end().at("wrong_cid") == 5U);
}

BOOST_AUTO_TEST_CASE(other_destination_than_the_host_is_dropped_and_counted) {
  for (const uint64_t cid : {0ULL, 1ULL, 3ULL, 4ULL, 0x100000002ULL}) {
    Header header = VsockGuest::header(Op::request, kPort, 1024);
    header.dst_cid = cid;
    guest.send(header);
  }
  BOOST_TEST(guest.quiet());
  BOOST_TEST(!daemon.dialled(Deadline{0}));
  BOOST_TEST(serves(daemon, guest));
  BOOST_TEST(daemon.end().at("wrong_cid") == 5U);
}

// Rule 3: type.

BOOST_AUTO_TEST_CASE(type_other_than_stream_gets_a_reset_of_its_type) {
  for (const uint16_t type : {0, 2, 3, 0xffff}) {
    Header header = VsockGuest::header(Op::request, kPort, 1024);
    header.type = type;
    guest.send(header);
    BOOST_TEST(guest.expect(Op::rst).header.type == type);
  }
  BOOST_TEST(!daemon.dialled(Deadline{0}));
  BOOST_TEST(serves(daemon, guest));
}

BOOST_AUTO_TEST_CASE(type_other_than_stream_does_not_touch_the_stream_of_the_tuple) {
  HostEnd end = guest.open_from_guest(daemon);
  Header header = VsockGuest::header(Op::rw, kPort, 1024);
  header.type = 2;
  guest.send(header, "seqpacket");
  BOOST_TEST(guest.expect(Op::rst).header.type == 2);
  BOOST_TEST(end.quiet());
  guest.send(Op::rw, kPort, 1024, "stream");
  BOOST_TEST(end.hear(6) == "stream");
}

BOOST_AUTO_TEST_CASE(reset_of_another_type_is_not_answered) {
  Header header = VsockGuest::header(Op::rst, kPort, 1024);
  header.type = 2;
  guest.send(header);
  BOOST_TEST(guest.quiet());
  BOOST_TEST(serves(daemon, guest));
}

// Rule 4: operations.

BOOST_AUTO_TEST_CASE(unknown_operation_gets_one_reset) {
  for (const uint16_t op : {0, 8, 0xffff}) {
    guest.send(static_cast<Op>(op), kPort, 1024);
    guest.expect(Op::rst);
  }
  BOOST_TEST(guest.quiet());
  BOOST_TEST(serves(daemon, guest));
}

BOOST_AUTO_TEST_CASE(unknown_operation_on_a_stream_resets_it) {
  HostEnd end = guest.open_from_guest(daemon);
  guest.send(static_cast<Op>(9), kPort, 1024);
  check_reset(end);
}

BOOST_AUTO_TEST_CASE(reset_without_a_stream_is_not_answered) {
  guest.send(Op::rst, kPort, 1024);
  guest.send(Op::rst, kPort, 77);
  BOOST_TEST(guest.quiet());
  BOOST_TEST(serves(daemon, guest));
}

BOOST_AUTO_TEST_CASE(every_other_operation_without_a_stream_gets_a_reset) {
  for (const Op op : {Op::response, Op::shutdown, Op::rw, Op::credit_update, Op::credit_request}) {
    guest.send(op, kPort, 1024);
    const Packet reset = guest.expect(Op::rst);
    BOOST_TEST(reset.header.src_port == 1024U);
    BOOST_TEST(reset.header.dst_port == kPort);
  }
  BOOST_TEST(guest.quiet());
  BOOST_TEST(serves(daemon, guest));
}

BOOST_AUTO_TEST_CASE(response_to_no_request_resets_the_stream) {
  HostEnd end = guest.open_from_guest(daemon);
  guest.send(Op::response, kPort, 1024);
  check_reset(end);
}

BOOST_AUTO_TEST_CASE(data_before_the_response_resets_the_stream) {
  HostEnd end = daemon.connect("CONNECT 1025\n");
  const Packet request = guest.expect(Op::request);
  guest.send(Op::rw, 1025, request.header.src_port, "early");
  check_reset(end);
}

BOOST_AUTO_TEST_CASE(data_after_a_shutdown_for_sending_resets_the_stream) {
  HostEnd end = guest.open_from_guest(daemon);
  guest.shutdown(kPort, 1024, kShutdownSend);
  guest.send(Op::rw, kPort, 1024, "late");
  check_reset(end);
}

BOOST_AUTO_TEST_CASE(unknown_shutdown_flags_mean_nothing) {
  HostEnd end = guest.open_from_guest(daemon);
  guest.shutdown(kPort, 1024, 0);
  guest.shutdown(kPort, 1024, 0xfffffffc);
  guest.send(Op::rw, kPort, 1024, "open");
  BOOST_TEST(end.hear(4) == "open");
}

// Rule 5: requests.

BOOST_AUTO_TEST_CASE(request_for_a_stream_that_exists_resets_it) {
  HostEnd end = guest.open_from_guest(daemon);
  guest.send(Op::request, kPort, 1024);
  check_reset(end);
  BOOST_TEST(daemon.end().at("duplicates") == 1U);
}

BOOST_AUTO_TEST_CASE(port_that_is_not_allowed_gets_a_reset) {
  for (const uint32_t port : {0U, 22U, 1023U, 1025U, 0xffffffffU}) {
    guest.send(Op::request, kPort, port);
    guest.expect(Op::rst);
  }
  BOOST_TEST(!daemon.dialled(Deadline{0}));
  BOOST_TEST(serves(daemon, guest));
  BOOST_TEST(daemon.end().at("requests_refused") == 5U);
}

// Rule 6: credit.

BOOST_AUTO_TEST_CASE(data_beyond_our_credit_resets_the_stream) {
  HostEnd end = guest.open_from_guest(daemon);
  // The host reads nothing: a unix socket takes some, we hold the rest, and then it is enough.
  for (int i = 0; i < 64; ++i) {
    guest.send(Op::rw, kPort, 1024, std::string(kMaxPayload, 'x'));
    std::optional<Packet> packet;
    while ((packet = guest.next(Deadline{20})) && packet->header.op == Op::credit_update) {
    }
    if (!packet) continue;
    BOOST_TEST((packet->header.op == Op::rst));
    BOOST_TEST(i >= 4);  // the credit itself was honoured
    BOOST_TEST(serves(daemon, guest));
    return;
  }
  BOOST_FAIL("the guest could send without end");
}

BOOST_AUTO_TEST_CASE(fwd_cnt_beyond_what_was_sent_resets_the_stream) {
  for (const uint32_t fwd_cnt : {1U, 0x7fffffffU, 0x80000000U, 0xfdffffffU}) {
    HostEnd end = guest.open_from_guest(daemon);
    Header header = VsockGuest::header(Op::credit_update, kPort, 1024);
    header.fwd_cnt = fwd_cnt;
    guest.send(header);
    guest.expect(Op::rst);
    BOOST_TEST(end.ended());
  }
  BOOST_TEST(serves(daemon, guest));
}

BOOST_AUTO_TEST_CASE(request_with_a_false_fwd_cnt_is_reset) {
  Header header = VsockGuest::header(Op::request, kPort, 1024);
  header.fwd_cnt = 5;
  guest.send(header);
  guest.expect(Op::rst);
  auto dialled = daemon.dialled();
  BOOST_REQUIRE(dialled);
  BOOST_TEST(dialled->end.ended());
  BOOST_TEST(serves(daemon, guest));
}

// Rule 7.

BOOST_AUTO_TEST_CASE(buffer_shrunk_below_what_is_in_flight_stops_the_host) {
  HostEnd end = guest.open_from_guest(daemon, kPort, 1000);
  end.say(std::string(1000, 'a'));
  std::string heard;
  while (heard.size() < 1000) heard += guest.expect(Op::rw).payload;
  Header header = VsockGuest::header(Op::credit_update, kPort, 1024);
  header.buf_alloc = 10;
  guest.send(header);
  end.say("more");
  guest.expect(Op::credit_request);
  BOOST_TEST(guest.quiet());
  header.fwd_cnt = 1000;
  guest.send(header);
  BOOST_TEST(guest.expect(Op::rw).payload == "more");
}

BOOST_AUTO_TEST_CASE(credit_requests_in_a_row_are_answered_together) {
  VsockDaemon other;
  VsockGuest busy(other, 1);
  HostEnd end = busy.open_from_guest(other);
  end.say("takes the only rx buffer");
  BOOST_REQUIRE(busy.front_end().next(0));
  for (int i = 0; i < 100; ++i) busy.send(Op::credit_request, kPort, 1024);
  busy.post_rx(64);
  busy.expect(Op::credit_update);
  BOOST_TEST(busy.quiet());
  BOOST_TEST(serves(other, busy));
}

BOOST_AUTO_TEST_CASE(buffer_of_no_bytes_holds_the_host_back_and_nothing_else) {
  HostEnd end = guest.open_from_guest(daemon, kPort, 0);
  end.say("waits");
  guest.expect(Op::credit_request);
  BOOST_TEST(guest.quiet());
  BOOST_TEST(serves(daemon, guest));
}

// Rules 9 and 10: numbers.

BOOST_AUTO_TEST_CASE(connections_beyond_the_cap_get_a_reset_and_touch_no_other) {
  std::vector<HostEnd> ends;
  for (uint32_t port = 0; port < 1023; ++port) ends.push_back(guest.open_from_guest(daemon, 10'000 + port));
  guest.send(Op::request, 9'999, 1024);
  guest.expect(Op::rst);
  BOOST_TEST(!daemon.dialled(Deadline{0}));
  BOOST_TEST(daemon.connect("CONNECT 1025\n").ended());
  for (const size_t i : {0, 511, 1022}) {
    guest.send(Op::rw, static_cast<uint32_t>(10'000 + i), 1024, "mine");
    BOOST_TEST(ends[i].hear(4) == "mine");
  }
  guest.send(Op::rst, 10'000, 1024);
  BOOST_TEST(ends[0].ended());
  BOOST_TEST(serves(daemon, guest));
}

BOOST_AUTO_TEST_CASE(storm_of_strays_gets_a_bounded_number_of_resets_and_log_lines) {
  constexpr uint32_t kStorm = 5'000;
  VsockDaemon other;
  VsockGuest silent(other, 0);  // no rx buffer at all while the storm lasts
  for (uint32_t port = 0; port < kStorm; ++port) silent.send(Op::rw, port, 1024, "stray");
  silent.post_rx(64);
  uint32_t resets = 0;
  while (silent.next(kQuiet)) ++resets;
  BOOST_TEST(resets > 0U);
  BOOST_TEST(resets <= 1024U);
  BOOST_TEST(serves(other, silent));
  const auto counters = other.end();
  BOOST_TEST(counters.at("strays") == kStorm);
  BOOST_TEST(counters.at("resets_dropped") == kStorm - resets);
  const std::string log = other.log();
  BOOST_TEST(std::count(log.begin(), log.end(), '\n') < 40);
}

BOOST_AUTO_TEST_CASE(storm_of_requests_that_are_reset_at_once_leaves_nothing_behind) {
  for (uint32_t port = 0; port < 3'000; ++port) {
    guest.send(Op::request, port, 1024);
    guest.send(Op::rst, port, 1024);
    while (auto dialled = daemon.dialled(Deadline{0})) BOOST_TEST(dialled->end.ended());
    while (guest.next(Deadline{0})) {
    }
  }
  while (guest.next(kQuiet)) {
  }
  BOOST_TEST(serves(daemon, guest));
}

BOOST_AUTO_TEST_CASE(broker_that_takes_no_connection_makes_no_stall) {
  // Nobody receives from the dial socket: it fills, and then requests are refused.
  for (uint32_t port = 0; port < 1'023; ++port) guest.send(Op::request, port, 1024);
  size_t responses = 0, resets = 0;
  while (const auto packet = guest.next(kQuiet)) {
    if (packet->header.op == Op::response) ++responses;
    if (packet->header.op == Op::rst) ++resets;
  }
  BOOST_TEST(responses > 0U);
  BOOST_TEST(responses + resets == 1'023U);
  BOOST_TEST(daemon.running());
}

// Rule 11: the host's writer. Reading slowly costs the guest only its credit.

BOOST_AUTO_TEST_CASE(slow_host_holds_back_its_own_stream_only) {
  HostEnd slow = guest.open_from_guest(daemon, 1);
  std::string said;
  for (int i = 0; i < 4; ++i) {
    said += std::string(kMaxPayload, static_cast<char>('a' + i));
    guest.send(Op::rw, 1, 1024, std::string_view(said).substr(said.size() - kMaxPayload));
  }
  while (guest.next(kQuiet)) {
  }
  BOOST_TEST(serves(daemon, guest));
  BOOST_TEST((slow.hear(said.size()) == said));
}

// Rule 14 and the rings.

BOOST_AUTO_TEST_CASE(event_queue_filled_or_not_makes_no_difference) {
  BOOST_TEST(serves(daemon, guest));
  for (int i = 0; i < 128; ++i) guest.front_end().post(2, {}, 4);
  guest.front_end().ring(2).kick();
  BOOST_TEST(serves(daemon, guest));
  BOOST_TEST(!guest.front_end().next(2, kQuiet));  // they stay where they are
}

BOOST_AUTO_TEST_CASE(guest_without_rx_buffers_stalls_only_what_it_would_receive) {
  VsockDaemon other;
  VsockGuest mute(other, 1);
  HostEnd end = mute.open_from_guest(other);  // takes the buffer, which is posted anew
  end.say("takes it");
  BOOST_TEST(mute.front_end().next(0)->bytes.size() == kHeaderSize + 8);  // not posted anew
  end.say("waits");
  mute.send(Op::rw, kPort, 1024, "goes");
  BOOST_TEST(end.hear(4) == "goes");
  BOOST_TEST(!mute.front_end().next(0, kQuiet));
  mute.post_rx(1);
  BOOST_TEST(mute.expect(Op::rw).payload == "waits");
}

BOOST_AUTO_TEST_CASE(rx_buffer_without_room_for_a_packet_breaks_that_queue_only) {
  VsockDaemon other;
  VsockGuest small(other, 0);
  small.post_rx(1, kHeaderSize);
  small.send(Op::request, kPort, 1024);
  BOOST_TEST(support::signalled(small.front_end().ring(0).err_fd(), kDeadline));
  small.send(Op::credit_request, kPort, 1024);  // tx still goes
  BOOST_TEST(other.running());
  BOOST_TEST(other.end().at("queue_faults") == 1U);
}

BOOST_AUTO_TEST_CASE(a_device_reset_ends_every_stream_and_the_device_is_set_up_again) {
  HostEnd end = guest.open_from_guest(daemon);
  support::FakeFrontEnd& front_end = guest.front_end();
  BOOST_TEST(front_end.ack(vhost::Request::reset_device).value() == 0U);
  BOOST_TEST(end.ended());
  const auto features = support::FakeFrontEnd::u64(front_end.features());
  BOOST_TEST(front_end.ack(vhost::Request::set_features, features).value() == 0U);
  const uint16_t rx_taken =
      front_end.ring(0).used_idx();  // what stands behind it in the ring is still to be filled
  for (unsigned queue = 0; queue < 3; ++queue) {
    front_end.set_up_ring(queue, queue == 0 ? rx_taken : front_end.ring(queue).avail_idx());
    front_end.enable_ring(queue);
  }
  BOOST_TEST(serves(daemon, guest));
}

BOOST_AUTO_TEST_CASE(packet_with_a_writable_part_is_taken_as_any) {
  HostEnd end = guest.open_from_guest(daemon);
  Header header = VsockGuest::header(Op::rw, kPort, 1024);
  header.len = 4;
  sys::Bytes bytes(kHeaderSize);
  encode_header(header, std::span(bytes).first<kHeaderSize>());
  sys::append(bytes, sys::as_bytes("odd!"));
  BOOST_TEST(guest.front_end().request(1, bytes, 512).len == 0U);
  BOOST_TEST(end.hear(4) == "odd!");
}

BOOST_AUTO_TEST_CASE(second_front_end_is_refused) {
  sys::Fd second = std::move(*sys::connect_unix(daemon.device_path()));
  HostEnd end(std::move(second));
  BOOST_TEST(end.ended());
  BOOST_TEST(serves(daemon, guest));
}

BOOST_AUTO_TEST_CASE(front_end_of_another_user_is_refused) {
  VsockDaemon other({"--peer-uid", "12345"});
  HostEnd end(std::move(*sys::connect_unix(other.device_path())));
  BOOST_TEST(end.ended());
  BOOST_TEST(other.running());
}

BOOST_AUTO_TEST_CASE(host_process_of_another_user_is_refused) {
  VsockDaemon other({"--connect-uid", "12345"});
  VsockGuest its_guest(other);
  BOOST_TEST(other.connect("CONNECT 1025\n").ended());
  BOOST_TEST(its_guest.quiet());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::vsock
