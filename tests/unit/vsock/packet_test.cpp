#include "vmm/vsock/packet.h"

#include <array>
#include <boost/test/unit_test.hpp>

#include "vmm/sys/bytes.h"
#include "vmm/vsock/backlog.h"
#include "vmm/vsock/connect.h"
#include "vmm/vsock/dial.h"
#include "vmm/vsock/token_bucket.h"

using namespace turnbox;
using namespace turnbox::vsock;

BOOST_AUTO_TEST_SUITE(packet)

// The layout of struct virtio_vsock_hdr, byte by byte.
BOOST_AUTO_TEST_CASE(header_has_the_layout_of_the_specification) {
  const Header header{.src_cid = 0x0807060504030201,
                      .dst_cid = 2,
                      .src_port = 0x14131211,
                      .dst_port = 0x24232221,
                      .len = 0x34333231,
                      .type = 1,
                      .op = Op::rw,
                      .flags = 3,
                      .buf_alloc = 0x00040000,
                      .fwd_cnt = 0xffffffff};
  std::array<std::byte, kHeaderSize> bytes;
  encode_header(header, bytes);
  BOOST_TEST(sys::to_hex(bytes) ==
             "0102030405060708"
             "0200000000000000"
             "11121314"
             "21222324"
             "31323334"
             "0100"
             "0500"
             "03000000"
             "00000400"
             "ffffffff");
  const Header back = decode_header(bytes);
  BOOST_TEST(back.src_cid == header.src_cid);
  BOOST_TEST(back.dst_cid == header.dst_cid);
  BOOST_TEST(back.src_port == header.src_port);
  BOOST_TEST(back.dst_port == header.dst_port);
  BOOST_TEST(back.len == header.len);
  BOOST_TEST(back.type == header.type);
  BOOST_TEST((back.op == header.op));
  BOOST_TEST(back.flags == header.flags);
  BOOST_TEST(back.buf_alloc == header.buf_alloc);
  BOOST_TEST(back.fwd_cnt == header.fwd_cnt);
}

BOOST_AUTO_TEST_CASE(connect_line_is_taken_to_the_letter) {
  BOOST_TEST(parse_connect("CONNECT 1025\n").value() == 1025U);
  BOOST_TEST(parse_connect("CONNECT 0\n").value() == 0U);
  BOOST_TEST(parse_connect("CONNECT 4294967295\n").value() == 4294967295U);
  for (const char* wrong :
       {"CONNECT 4294967296\n", "CONNECT -1\n", "CONNECT +1\n", "CONNECT \n", "CONNECT 1025",
        "CONNECT 1025 \n", "CONNECT  1025\n", "connect 1025\n", "CONNECT 0x10\n", "\n", "", "CONNECT 1\r\n",
        "CONNECT 000000000000000000000000001\n"}) {
    BOOST_TEST(!parse_connect(wrong), wrong);
  }
  BOOST_TEST(connect_answer(1073741824) == "OK 1073741824\n");
}

BOOST_AUTO_TEST_CASE(dial_message_is_two_little_endian_words) {
  std::array<std::byte, kDialSize> bytes;
  encode_dial({.port = 1024, .guest_port = 0x01020304}, bytes);
  BOOST_TEST(sys::to_hex(bytes) == "0004000004030201");
  BOOST_TEST(decode_dial(bytes).port == 1024U);
  BOOST_TEST(decode_dial(bytes).guest_port == 0x01020304U);
}

BOOST_AUTO_TEST_CASE(backlog_keeps_order_over_skips_and_consumption) {
  Backlog backlog;
  std::string said, expected, got;
  for (int round = 0; round < 100; ++round) {
    said = std::string(static_cast<size_t>(round * 7 % 50), static_cast<char>('a' + round % 26)) + "-tail";
    const size_t cut = said.size() / 2;
    const iovec parts[] = {{said.data(), cut}, {said.data() + cut, said.size() - cut}};
    const size_t skip = static_cast<size_t>(round) % said.size();
    backlog.append(parts, skip);
    expected += said.substr(skip);
    const size_t take = std::min<size_t>(backlog.size(), static_cast<size_t>(round % 11));
    got += sys::as_text(backlog.front().first(take));
    backlog.consume(take);
  }
  got += sys::as_text(backlog.front());
  backlog.consume(backlog.size() + 5);
  BOOST_TEST(backlog.empty());
  BOOST_TEST(got == expected);
}

BOOST_AUTO_TEST_CASE(bucket_gives_its_burst_and_then_its_rate) {
  using namespace std::chrono_literals;
  TokenBucket bucket(3, 10);
  auto now = TokenBucket::Clock::time_point{} + 1h;
  for (int i = 0; i < 3; ++i) BOOST_TEST(bucket.take(now));
  BOOST_TEST(!bucket.take(now));
  now += 100ms;
  BOOST_TEST(bucket.take(now));
  BOOST_TEST(!bucket.take(now));
  now += 1h;
  for (int i = 0; i < 3; ++i) BOOST_TEST(bucket.take(now));
  BOOST_TEST(!bucket.take(now));
  BOOST_TEST(!bucket.take(now - 1h));  // a clock that goes back gives nothing
}

BOOST_AUTO_TEST_SUITE_END()
