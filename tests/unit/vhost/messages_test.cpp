#include "vmm/vhost/messages.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <boost/test/unit_test.hpp>

#include "vmm/sys/socket.h"
#include "vmm/vhost/receiver.h"

namespace turnbox::vhost {
namespace {

sys::Bytes header(uint32_t request, uint32_t flags, uint32_t size) {
  sys::Bytes bytes;
  sys::append_le(bytes, Header{request, flags, size});
  return bytes;
}

bool parses(uint32_t flags, uint32_t size) {
  const auto bytes = header(1, flags, size);
  return parse_header(std::span<const std::byte, kHeaderSize>(bytes)).has_value();
}

bool fits(Request request, sys::ByteSpan payload, size_t fds) {
  const Header head{static_cast<uint32_t>(request), kFlagVersion, static_cast<uint32_t>(payload.size())};
  return check_shape(head, payload, fds).has_value();
}

sys::Bytes table(uint32_t regions, size_t size) {
  sys::Bytes bytes;
  sys::append_le(bytes, regions);
  bytes.resize(size);
  return bytes;
}

struct Wire {
  Wire() {
    auto pair = sys::socket_pair(SOCK_STREAM);
    BOOST_REQUIRE(pair.has_value());
    ours = std::move(pair->first);
    theirs = std::move(pair->second);
    BOOST_REQUIRE(sys::set_nonblocking(ours.get()).has_value());
  }
  sys::Fd ours, theirs;
  Receiver receiver;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(message_shapes)

BOOST_AUTO_TEST_CASE(a_header_is_version_1_with_no_other_flag_than_need_reply) {
  BOOST_TEST(parses(1, 0));
  BOOST_TEST(parses(9, 4096));
  BOOST_TEST(!parses(0, 0));
  BOOST_TEST(!parses(2, 0));
  BOOST_TEST(!parses(5, 0));
  BOOST_TEST(!parses(0x11, 0));
  BOOST_TEST(!parses(0x80000001, 0));
  BOOST_TEST(!parses(1, 4097));
}

BOOST_AUTO_TEST_CASE(a_memory_table_has_one_descriptor_a_region) {
  BOOST_TEST(fits(Request::set_mem_table, table(1, 40), 1));
  BOOST_TEST(fits(Request::set_mem_table, table(8, 264), 8));
  BOOST_TEST(!fits(Request::set_mem_table, table(0, 8), 0));
  BOOST_TEST(!fits(Request::set_mem_table, table(9, 296), 8));
  BOOST_TEST(!fits(Request::set_mem_table, table(2, 40), 2));
  BOOST_TEST(!fits(Request::set_mem_table, table(1, 72), 1));
  BOOST_TEST(!fits(Request::set_mem_table, table(2, 72), 1));
  BOOST_TEST(
      !fits(Request::set_mem_table, table(0x08000001, 40), 1));  // 32 bits of it would wrap to one region
  BOOST_TEST(!fits(Request::set_mem_table, table(1, 4), 0));
}

BOOST_AUTO_TEST_CASE(a_ring_descriptor_is_there_unless_bit_8_says_not) {
  sys::Bytes with(8), without(8);
  sys::store_le<uint64_t>(without.data(), kNoFd);
  BOOST_TEST(fits(Request::set_vring_call, with, 1));
  BOOST_TEST(fits(Request::set_vring_call, without, 0));
  BOOST_TEST(!fits(Request::set_vring_call, with, 0));
  BOOST_TEST(!fits(Request::set_vring_call, with, 2));
  BOOST_TEST(!fits(Request::set_vring_call, without, 1));
}

BOOST_AUTO_TEST_CASE(a_configuration_window_is_as_long_as_it_says) {
  sys::Bytes bytes;
  sys::append_le(bytes, ConfigHead{0, 8, 0});
  BOOST_TEST(!fits(Request::get_config, bytes, 0));
  bytes.resize(12 + 8);
  BOOST_TEST(fits(Request::get_config, bytes, 0));
  sys::store_le<uint32_t>(bytes.data() + 4, 0xfffffff4 + 8);  // 12 + size would wrap
  BOOST_TEST(!fits(Request::get_config, bytes, 0));
}

BOOST_AUTO_TEST_CASE(a_region_added_has_its_descriptor_and_one_removed_may_have_one) {
  const sys::Bytes one(sizeof(OneRegion));
  BOOST_TEST(fits(Request::add_mem_reg, one, 1));
  BOOST_TEST(!fits(Request::add_mem_reg, one, 0));
  BOOST_TEST(!fits(Request::add_mem_reg, one, 2));
  BOOST_TEST(fits(Request::rem_mem_reg, one, 0));
  BOOST_TEST(fits(Request::rem_mem_reg, one, 1));
  BOOST_TEST(!fits(Request::rem_mem_reg, one, 2));
  for (const size_t size : {0U, 32U, 39U, 41U, 80U}) {
    BOOST_TEST(!fits(Request::add_mem_reg, sys::Bytes(size), 1));
    BOOST_TEST(!fits(Request::rem_mem_reg, sys::Bytes(size), 0));
  }
}

BOOST_AUTO_TEST_CASE(a_reset_and_the_question_for_slots_have_no_payload) {
  for (const Request request : {Request::reset_device, Request::get_max_mem_slots}) {
    BOOST_TEST(fits(request, {}, 0));
    BOOST_TEST(!fits(request, {}, 1));
    BOOST_TEST(!fits(request, sys::Bytes(8), 0));
  }
}

BOOST_AUTO_TEST_CASE(unknown_requests_have_no_shape) {
  for (const uint32_t request : {0U, 6U, 19U, 35U, 99U}) {
    BOOST_TEST(!check_shape({request, kFlagVersion, 0}, {}, 0).has_value());
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(message_stream, Wire)

BOOST_AUTO_TEST_CASE(two_messages_in_one_write_are_two_messages) {
  auto bytes = header(2, 1, 8);
  bytes.resize(bytes.size() + 8, std::byte{7});
  sys::append(bytes, header(3, 1, 0));
  BOOST_REQUIRE(sys::send_with_fds(theirs.get(), bytes).has_value());
  auto first = receiver.next(ours.get());
  BOOST_REQUIRE((first && *first));
  BOOST_TEST((*first)->header.request == 2U);
  BOOST_TEST((*first)->payload.size() == 8U);
  auto second = receiver.next(ours.get());
  BOOST_REQUIRE((second && *second));
  BOOST_TEST((*second)->header.request == 3U);
  BOOST_TEST((receiver.next(ours.get()).error().kind == sys::ErrorKind::unavailable));
}

BOOST_AUTO_TEST_CASE(a_descriptor_belongs_to_the_message_it_came_with) {
  const sys::Fd fd(::eventfd(0, EFD_CLOEXEC));
  const int number = fd.get();
  BOOST_REQUIRE(sys::send_with_fds(theirs.get(), header(3, 1, 0)).has_value());
  BOOST_REQUIRE(sys::send_with_fds(theirs.get(), header(4, 1, 0), std::span(&number, 1)).has_value());
  BOOST_REQUIRE(sys::send_with_fds(theirs.get(), header(3, 1, 0)).has_value());
  for (const size_t expected : {0U, 1U, 0U}) {
    auto message = receiver.next(ours.get());
    BOOST_REQUIRE((message && *message));
    BOOST_TEST((*message)->fds.size() == expected);
  }
}

BOOST_AUTO_TEST_CASE(an_end_is_no_message) {
  BOOST_REQUIRE(sys::send_with_fds(theirs.get(), header(2, 1, 8)).has_value());
  theirs.reset();
  auto message = receiver.next(ours.get());
  BOOST_REQUIRE(message.has_value());
  BOOST_TEST(!message->has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::vhost
