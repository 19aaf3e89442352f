// What a well-behaved guest and a well-behaved host get from turnbox-vsockd.
#include <sys/socket.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <thread>

#include "tests/guest/vsock/vsock_daemon.h"
#include "vmm/sys/bytes.h"
#include "vmm/sys/digest.h"

namespace turnbox::vsock {
namespace {

constexpr size_t kMebibyte = 1 << 20;

std::string many_bytes(uint32_t seed) {
  std::string bytes(kMebibyte, '\0');
  for (char& byte : bytes) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<char>(seed >> 24);
  }
  return bytes;
}

std::string hash(std::string_view bytes) {
  return sys::to_hex(sys::plain_sha256(sys::as_bytes(bytes)).bytes);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(stream)

BOOST_AUTO_TEST_CASE(config_space_tells_the_cid) {
  VsockDaemon daemon({"--cid", "3"});
  support::FakeFrontEnd front_end(daemon.device_path(), {.queues = 3});
  front_end.negotiate();
  BOOST_TEST((front_end.protocol() & vhost::kProtocolConfig) != 0U);
  sys::Bytes payload;
  for (const uint32_t word : {0U, 8U, 0U}) sys::append_le(payload, word);  // offset, size, flags
  payload.resize(payload.size() + 8);
  front_end.send(vhost::Request::get_config, payload);
  const auto reply = front_end.receive();
  BOOST_REQUIRE(reply);
  BOOST_REQUIRE(reply->payload.size() == 20U);
  BOOST_TEST(sys::load_le<uint64_t>(reply->payload.data() + 12) == 3U);
}

BOOST_AUTO_TEST_CASE(guest_connects_and_bytes_go_both_ways) {
  VsockDaemon daemon;
  VsockGuest guest(daemon);
  HostEnd end = guest.open_from_guest(daemon);
  guest.send(Op::rw, VsockGuest::kPort, 1024, "question");
  BOOST_TEST(end.hear(8) == "question");
  end.say("answer");
  const Packet packet = guest.expect(Op::rw);
  BOOST_TEST(packet.payload == "answer");
  BOOST_TEST(packet.header.type == kTypeStream);
  BOOST_TEST(packet.header.src_port == 1024U);
  BOOST_TEST(packet.header.dst_port == VsockGuest::kPort);
  BOOST_TEST(packet.header.fwd_cnt == 8U);
  BOOST_TEST(packet.header.buf_alloc == VsockGuest::kBuffer);
}

BOOST_AUTO_TEST_CASE(host_connects_and_bytes_go_both_ways) {
  VsockDaemon daemon;
  VsockGuest guest(daemon);
  auto [end, host_port] = guest.open_from_host(daemon);
  end.say("question");
  BOOST_TEST(guest.expect(Op::rw).payload == "question");
  guest.send(Op::rw, 1025, host_port, "answer");
  BOOST_TEST(end.hear(6) == "answer");
}

BOOST_AUTO_TEST_CASE(bytes_right_behind_the_connect_line_reach_the_guest) {
  VsockDaemon daemon;
  VsockGuest guest(daemon);
  HostEnd end = daemon.connect("CONNECT 1025\nimpatient");
  const Packet request = guest.expect(Op::request);
  guest.send(Op::response, 1025, request.header.src_port);
  BOOST_TEST(guest.expect(Op::rw).payload == "impatient");
}

BOOST_AUTO_TEST_CASE(connect_line_in_pieces_is_put_together) {
  VsockDaemon daemon;
  VsockGuest guest(daemon);
  HostEnd end = daemon.connect("CON");
  BOOST_TEST(guest.quiet());
  end.say("NECT 10");
  BOOST_TEST(guest.quiet());
  end.say("25\n");
  BOOST_TEST(guest.expect(Op::request).header.dst_port == 1025U);
}

BOOST_AUTO_TEST_CASE(wrong_connect_lines_close_without_an_answer) {
  VsockDaemon daemon;
  VsockGuest guest(daemon);
  for (const char* line : {"CONNECT\n", "CONNECT 99999999999\n", "HELLO 1025\n", "\n",
                           "CONNECT 1025 and a line that is longer than thirty-two bytes"}) {
    BOOST_TEST(daemon.connect(line).ended(), line);
  }
  BOOST_TEST(guest.quiet());
  BOOST_TEST(serves(daemon, guest));
}

BOOST_AUTO_TEST_CASE(connect_before_the_guest_is_up_closes_at_once) {
  VsockDaemon daemon;
  BOOST_TEST(daemon.connect("CONNECT 1025\n").ended());
  support::FakeFrontEnd front_end(daemon.device_path(), {.queues = 3});
  front_end.negotiate();
  front_end.share_memory();
  BOOST_TEST(daemon.connect("CONNECT 1025\n").ended());
}

BOOST_AUTO_TEST_CASE(connect_that_nobody_listens_for_closes_without_ok) {
  VsockDaemon daemon;
  VsockGuest guest(daemon);
  HostEnd end = daemon.connect("CONNECT 1025\n");
  const Packet request = guest.expect(Op::request);
  guest.send(Op::rst, 1025, request.header.src_port);
  BOOST_TEST(end.ended());
  BOOST_TEST(guest.quiet());  // a reset is not answered
}

BOOST_AUTO_TEST_CASE(one_mebibyte_from_the_guest_arrives_whole) {
  VsockDaemon daemon;
  VsockGuest guest(daemon);
  HostEnd end = guest.open_from_guest(daemon);
  const std::string bytes = many_bytes(1);
  std::string heard;
  std::thread host([&] { heard = end.hear(kMebibyte); });
  uint32_t sent = 0, forwarded = 0;
  while (sent < bytes.size()) {
    // Odd sizes, so that packets and reads never line up.
    const size_t piece =
        std::min<size_t>({bytes.size() - sent, 60'001, VsockGuest::kBuffer - (sent - forwarded)});
    if (piece == 0) {
      forwarded = guest.expect(Op::credit_update).header.fwd_cnt;
      continue;
    }
    guest.send(Op::rw, VsockGuest::kPort, 1024, std::string_view(bytes).substr(sent, piece));
    sent += static_cast<uint32_t>(piece);
  }
  host.join();
  BOOST_TEST(heard.size() == kMebibyte);
  BOOST_TEST(hash(heard) == hash(bytes));
}

BOOST_AUTO_TEST_CASE(one_mebibyte_from_the_host_arrives_whole_and_within_the_credit) {
  VsockDaemon daemon;
  VsockGuest guest(daemon, 128);
  HostEnd end = guest.open_from_guest(daemon, VsockGuest::kPort, 50'000);
  const std::string bytes = many_bytes(2);
  std::thread host([&] { end.say(bytes); });
  std::string heard;
  uint32_t told = 0;
  while (heard.size() < bytes.size()) {
    const auto packet = guest.next();
    BOOST_REQUIRE(packet);
    if (packet->header.op == Op::rw) {
      heard += packet->payload;
      BOOST_TEST(heard.size() - told <= 50'000U);
    } else {
      BOOST_TEST((packet->header.op == Op::credit_request));
      Header update = VsockGuest::header(Op::credit_update, VsockGuest::kPort, 1024);
      update.buf_alloc = 50'000;
      update.fwd_cnt = told = static_cast<uint32_t>(heard.size());
      guest.send(update);
    }
  }
  host.join();
  BOOST_TEST(hash(heard) == hash(bytes));
}

BOOST_AUTO_TEST_CASE(packet_in_many_descriptors_is_one_packet) {
  VsockDaemon daemon;
  VsockGuest guest(daemon);
  HostEnd end = guest.open_from_guest(daemon);
  Header header = VsockGuest::header(Op::rw, VsockGuest::kPort, 1024);
  header.len = 10;
  sys::Bytes bytes(kHeaderSize);
  encode_header(header, std::span(bytes).first<kHeaderSize>());
  sys::append(bytes, sys::as_bytes("0123456789 behind the packet"));
  const sys::ByteSpan all(bytes);
  for (const bool indirect : {false, true}) {
    // Cut in the header, at its end, and in the payload.
    const sys::ByteSpan parts[] = {all.first(7),       all.subspan(7, 30),  all.subspan(37, 7),
                                   all.subspan(44, 1), all.subspan(45, 20), all.subspan(65)};
    guest.front_end().post(1, parts, {}, indirect);
    BOOST_REQUIRE(guest.front_end().next(1));
    BOOST_TEST(end.hear(10) == "0123456789");
  }
  BOOST_TEST(end.quiet());
}

BOOST_AUTO_TEST_CASE(rx_buffer_with_a_header_descriptor_of_its_own_is_filled) {
  VsockDaemon daemon;
  VsockGuest guest(daemon, 0);
  const size_t split[] = {kHeaderSize, 5, 4091};
  for (int i = 0; i < 2; ++i) guest.front_end().post(0, {}, split);
  guest.send(Op::request, VsockGuest::kPort, 1024);
  guest.expect(Op::response);
  HostEnd end = std::move(daemon.dialled()->end);
  end.say("longer than five bytes");
  BOOST_TEST(guest.expect(Op::rw).payload == "longer than five bytes");
}

BOOST_AUTO_TEST_CASE(half_close_by_the_guest_for_sending) {
  VsockDaemon daemon;
  VsockGuest guest(daemon);
  HostEnd end = guest.open_from_guest(daemon);
  guest.send(Op::rw, VsockGuest::kPort, 1024, "last");
  guest.shutdown(VsockGuest::kPort, 1024, kShutdownSend);
  BOOST_TEST(end.hear(4) == "last");
  BOOST_TEST(end.ended());
  end.say("the other way stands");
  BOOST_TEST(guest.expect(Op::rw).payload == "the other way stands");
}

BOOST_AUTO_TEST_CASE(half_close_by_the_guest_for_receiving) {
  VsockDaemon daemon;
  VsockGuest guest(daemon);
  HostEnd end = guest.open_from_guest(daemon);
  guest.shutdown(VsockGuest::kPort, 1024, kShutdownReceive);
  BOOST_TEST(!end.try_say("nobody reads this"));
  guest.send(Op::rw, VsockGuest::kPort, 1024, "the other way stands");
  BOOST_TEST(end.hear(20) == "the other way stands");
}

BOOST_AUTO_TEST_CASE(half_close_by_the_host_for_sending) {
  VsockDaemon daemon;
  VsockGuest guest(daemon);
  HostEnd end = guest.open_from_guest(daemon);
  end.say("last");
  end.shut(SHUT_WR);
  BOOST_TEST(guest.expect(Op::rw).payload == "last");
  BOOST_TEST(guest.expect(Op::shutdown).header.flags == kShutdownSend);
  guest.send(Op::rw, VsockGuest::kPort, 1024, "the other way stands");
  BOOST_TEST(end.hear(20) == "the other way stands");
}

BOOST_AUTO_TEST_CASE(half_close_by_the_host_for_receiving) {
  VsockDaemon daemon;
  VsockGuest guest(daemon);
  HostEnd end = guest.open_from_guest(daemon);
  end.shut(SHUT_RD);
  guest.send(Op::rw, VsockGuest::kPort, 1024, "nobody reads this");
  BOOST_TEST(guest.expect(Op::shutdown).header.flags == kShutdownReceive);
  end.say("the other way stands");
  BOOST_TEST(guest.expect(Op::rw).payload == "the other way stands");
}

BOOST_AUTO_TEST_CASE(full_shutdown_by_the_guest_is_answered_with_a_reset) {
  VsockDaemon daemon;
  VsockGuest guest(daemon);
  HostEnd end = guest.open_from_guest(daemon);
  guest.send(Op::rw, VsockGuest::kPort, 1024, "last");
  guest.shutdown(VsockGuest::kPort, 1024, kShutdownBoth);
  guest.expect(Op::rst);
  BOOST_TEST(end.hear(4) == "last");
  BOOST_TEST(end.ended());
}

BOOST_AUTO_TEST_CASE(host_that_closes_early_is_a_full_shutdown_and_then_a_reset) {
  VsockDaemon daemon;
  VsockGuest guest(daemon);
  HostEnd end = guest.open_from_guest(daemon);
  end.say("last");
  end.close();
  std::string heard;
  uint32_t flags = 0;
  while (flags != kShutdownBoth) {  // RCV may be told before the last bytes
    const auto packet = guest.next();
    BOOST_REQUIRE(packet);
    heard += packet->payload;
    if (packet->header.op == Op::shutdown) flags |= packet->header.flags;
  }
  BOOST_TEST(heard == "last");
  guest.expect(Op::rst);  // after two seconds in which the guest did not answer
  BOOST_TEST(serves(daemon, guest));
}

BOOST_AUTO_TEST_CASE(what_the_guest_said_drains_after_its_machine_is_gone) {
  VsockDaemon daemon;
  std::optional<VsockGuest> guest;
  guest.emplace(daemon);
  HostEnd end = guest->open_from_guest(daemon);
  std::string said;
  for (int i = 0; i < 4; ++i) said += std::string(60'000, static_cast<char>('a' + i));
  for (size_t at = 0; at < said.size(); at += 60'000) {
    guest->send(Op::rw, VsockGuest::kPort, 1024, std::string_view(said).substr(at, 60'000));
  }
  guest.reset();
  BOOST_TEST(!daemon.exits(kQuiet));
  BOOST_TEST((end.hear(said.size()) == said));
  BOOST_TEST(end.ended());
  const auto exit = daemon.exits();
  BOOST_REQUIRE(exit);
  BOOST_TEST(!exit->signalled);
  BOOST_TEST(exit->code == 0);
}

BOOST_AUTO_TEST_CASE(streams_outlive_a_pause_of_the_rings) {
  VsockDaemon daemon;
  VsockGuest guest(daemon);
  HostEnd end = guest.open_from_guest(daemon);
  uint16_t base[3];
  for (unsigned queue = 0; queue < 3; ++queue) {
    guest.front_end().send(vhost::Request::get_vring_base, support::FakeFrontEnd::ring_state(queue, 0));
    const auto reply = guest.front_end().receive();
    BOOST_REQUIRE(reply);
    base[queue] = static_cast<uint16_t>(sys::load_le<uint32_t>(reply->payload.data() + 4));
  }
  end.say("said in the pause");
  BOOST_TEST(daemon.connect("CONNECT 1025\n").ended());
  for (unsigned queue = 0; queue < 3; ++queue) guest.front_end().set_up_ring(queue, base[queue]);
  BOOST_TEST(guest.expect(Op::rw).payload == "said in the pause");
  guest.send(Op::rw, VsockGuest::kPort, 1024, "and after it");
  BOOST_TEST(end.hear(12) == "and after it");
}

BOOST_AUTO_TEST_CASE(daemon_ends_with_its_dial_socket) {
  VsockDaemon daemon;
  VsockGuest guest(daemon);
  HostEnd end = guest.open_from_guest(daemon);
  daemon.end();
  BOOST_TEST(end.ended());
}

BOOST_AUTO_TEST_CASE(daemon_serves_as_its_own_user) {
  if (::geteuid() != 0) {
    BOOST_TEST_MESSAGE("not root: no other user to become");
    return;
  }
  VsockDaemon daemon({"--allow", "1024", "--uid", "65533", "--gid", "65533"});
  VsockGuest guest(daemon);
  BOOST_TEST(serves(daemon, guest));
  daemon.end();
  BOOST_TEST(daemon.log().find("own_user=true") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::vsock
