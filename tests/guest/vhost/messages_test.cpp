// docs/hostile-guest, section 1, rules 1 to 4 and 12 to 13: framing, descriptors, acknowledgements, features,
// config.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <filesystem>

#include "tests/guest/vhost/running.h"

namespace turnbox::vhost {
namespace {

constexpr uint32_t kNeedReply = kFlagVersion | kFlagNeedReply;

sys::Fd eventfd() {
  return sys::Fd(::eventfd(0, EFD_CLOEXEC));
}

size_t open_descriptors() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    count += entry.exists() ? 1 : 0;
  return count;
}

// A front end that only negotiated.
struct Negotiated {
  explicit Negotiated(EchoDaemon::Setup setup = {})
      : daemon(std::move(setup)), fe(daemon.path(), {.queues = 2}) {
    fe.negotiate();
  }
  void check_dropped() {
    BOOST_TEST(fe.closed());
    BOOST_TEST(daemon.counters().messages_refused == 1U);
    check_next_client(daemon);
  }
  EchoDaemon daemon;
  FakeFrontEnd fe;
};

sys::Bytes config_request(uint32_t offset, uint32_t size, uint32_t flags, size_t body) {
  sys::Bytes bytes;
  sys::append_le(bytes, ConfigHead{offset, size, flags});
  bytes.resize(bytes.size() + body);
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(framing)

BOOST_AUTO_TEST_CASE(a_version_other_than_1_drops_the_front_end) {
  for (const uint32_t version : {0U, 2U, 3U}) {
    Negotiated at;
    at.fe.send(Request::get_features, {}, {}, version);
    at.check_dropped();
  }
}

BOOST_AUTO_TEST_CASE(a_reserved_flag_drops_the_front_end) {
  for (unsigned bit = 4; bit < 32; ++bit) {
    Negotiated at;
    at.fe.send(Request::get_features, {}, {}, kFlagVersion | (1U << bit));
    at.check_dropped();
  }
}

BOOST_AUTO_TEST_CASE(a_reply_from_a_front_end_drops_it) {
  Negotiated at;
  at.fe.send(Request::get_features, {}, {}, kFlagVersion | kFlagReply);
  at.check_dropped();
}

BOOST_AUTO_TEST_CASE(a_payload_over_4_kib_drops_the_front_end_before_it_is_read) {
  for (const uint32_t size : {kMaxPayload + 1, 0x7fffffffU, 0xffffffffU}) {
    Negotiated at;
    sys::Bytes bytes;
    sys::append_le(bytes, Header{static_cast<uint32_t>(Request::set_features), kNeedReply, size});
    at.fe.send_bytes(bytes);
    at.check_dropped();
  }
}

// SET_LOG_BASE 6, SET_LOG_FD 7, GET_INFLIGHT_FD 31, SET_INFLIGHT_FD 32, SET_STATUS 39: known to the protocol
// and not offered; the others are nobody's.
BOOST_AUTO_TEST_CASE(a_request_that_is_not_offered_is_refused) {
  for (const uint32_t request : {0U, 6U, 7U, 19U, 31U, 32U, 35U, 39U, 41U, 1000U, 0xffffffffU}) {
    Negotiated at;
    const sys::Bytes payload(64);
    BOOST_TEST(at.fe.ack(static_cast<Request>(request), payload).value() != 0U);
    BOOST_TEST(at.daemon.counters().messages_refused == 1U);
    BOOST_TEST(at.fe.ack(Request::set_owner).value() == 0U);
  }
}

BOOST_AUTO_TEST_CASE(a_request_that_is_not_offered_drops_a_front_end_that_asked_for_no_reply) {
  Negotiated at;
  at.fe.send(static_cast<Request>(31));
  at.check_dropped();
}

BOOST_AUTO_TEST_CASE(a_payload_of_another_size_than_the_requests_is_refused) {
  const std::pair<Request, size_t> cases[] = {
      {Request::set_features, 4},    {Request::set_features, 16},  {Request::set_owner, 8},
      {Request::set_vring_num, 4},   {Request::set_vring_num, 12}, {Request::set_vring_addr, 39},
      {Request::set_vring_addr, 0},  {Request::set_vring_kick, 0}, {Request::set_vring_kick, 7},
      {Request::set_mem_table, 0},   {Request::set_mem_table, 8},  {Request::set_mem_table, 4096},
      {Request::set_config, 12},     {Request::set_config, 0},     {Request::set_vring_enable, 0},
      {Request::set_vring_call, 16}, {Request::set_vring_err, 9},  {Request::reset_owner, 1},
      {Request::reset_device, 8},    {Request::add_mem_reg, 32},   {Request::rem_mem_reg, 41},
  };
  Negotiated at;
  for (const auto& [request, size] : cases) {
    BOOST_TEST_CONTEXT(name_of(request) << " of " << size) {
      BOOST_TEST(at.fe.ack(request, sys::Bytes(size)).value() != 0U);
    }
  }
  BOOST_TEST(at.daemon.counters().messages_refused == std::size(cases));
}

BOOST_AUTO_TEST_CASE(a_question_with_a_payload_drops_the_front_end) {
  for (const Request request : {Request::get_features, Request::get_protocol_features, Request::get_queue_num,
                                Request::get_max_mem_slots}) {
    Negotiated at;
    at.fe.send(request, sys::Bytes(8), {}, kNeedReply);
    at.check_dropped();
  }
}

BOOST_AUTO_TEST_CASE(a_front_end_that_leaves_in_the_middle_of_a_message_leaves_nothing_behind) {
  EchoDaemon daemon;
  support::GuestMemory memory(1 << 20);
  const Region region = memory.region();
  const int fd = memory.fd();
  sys::Bytes message;
  const auto payload = FakeFrontEnd::mem_table(std::span(&region, 1));
  sys::append_le(message, Header{static_cast<uint32_t>(Request::set_mem_table), kFlagVersion,
                                 static_cast<uint32_t>(payload.size())});
  sys::append(message, payload);
  check_next_client(daemon);
  BOOST_TEST(daemon.wait_for_resets(1));
  daemon.counters();
  const size_t before = open_descriptors();
  for (unsigned cut = 1; cut <= message.size(); ++cut) {
    {
      FakeFrontEnd fe(daemon.path());
      fe.send_bytes(sys::ByteSpan(message).first(cut), std::span(&fd, 1));
    }
    BOOST_TEST(daemon.wait_for_resets(cut + 1));
  }
  BOOST_TEST(daemon.counters().peers_refused == 0U);
  BOOST_TEST(open_descriptors() == before);
  check_next_client(daemon);
}

BOOST_AUTO_TEST_CASE(half_a_message_holds_nobody_up) {
  Negotiated at;
  at.fe.send_bytes(sys::Bytes(5, std::byte{1}));
  BOOST_TEST(at.daemon.counters().messages > 0U);
  BOOST_TEST(!at.fe.closed(support::kQuiet));
}

BOOST_AUTO_TEST_CASE(a_message_that_arrives_byte_by_byte_is_one_message) {
  Negotiated at;
  sys::Bytes message;
  sys::append_le(message, Header{static_cast<uint32_t>(Request::get_queue_num), kFlagVersion, 0});
  for (const std::byte& byte : message) at.fe.send_bytes({&byte, 1});
  BOOST_TEST(sys::load_le<uint64_t>(at.fe.receive().value().payload.data()) == 2U);
}

BOOST_AUTO_TEST_CASE(a_front_end_that_reads_no_replies_is_dropped_and_blocks_nothing) {
  Negotiated at;
  sys::Bytes burst;
  for (int i = 0; i < 64; ++i) {
    sys::append_le(burst, Header{static_cast<uint32_t>(Request::get_features), kFlagVersion, 0});
  }
  bool dropped = false;
  for (int i = 0; i < 4000 && !dropped; ++i) {
    dropped = !sys::send_with_fds(at.fe.socket(), burst).has_value();
  }
  BOOST_TEST(dropped);
  check_next_client(at.daemon);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(descriptors)

BOOST_AUTO_TEST_CASE(a_missing_descriptor_is_refused) {
  Negotiated at;
  BOOST_TEST(at.fe.ack(Request::set_vring_kick, FakeFrontEnd::u64(0)).value() != 0U);
  BOOST_TEST(at.fe.ack(Request::set_vring_call, FakeFrontEnd::u64(0)).value() != 0U);
  BOOST_TEST(at.fe.ack(Request::set_vring_err, FakeFrontEnd::u64(0)).value() != 0U);
  const Region region = at.fe.memory().region();
  BOOST_TEST(at.fe.ack(Request::set_mem_table, FakeFrontEnd::mem_table(std::span(&region, 1))).value() != 0U);
}

BOOST_AUTO_TEST_CASE(surplus_descriptors_are_refused_and_closed) {
  Negotiated at;
  at.daemon.counters();
  const size_t before = open_descriptors();
  {
    const sys::Fd a = eventfd(), b = eventfd();
    const int fds[] = {a.get(), b.get()};
    BOOST_TEST(at.fe.ack(Request::set_vring_kick, FakeFrontEnd::u64(0), fds).value() != 0U);
    BOOST_TEST(at.fe.ack(Request::set_vring_call, FakeFrontEnd::u64(kNoFd), std::span(fds, 1)).value() != 0U);
    BOOST_TEST(at.fe.ack(Request::set_owner, {}, std::span(fds, 1)).value() != 0U);
    BOOST_TEST(
        at.fe.ack(Request::set_features, FakeFrontEnd::u64(kFeatureVersion1), std::span(fds, 2)).value() !=
        0U);
  }
  at.daemon.counters();
  BOOST_TEST(open_descriptors() == before);
  BOOST_TEST(at.daemon.counters().messages_refused == 4U);
}

BOOST_AUTO_TEST_CASE(more_descriptors_than_any_request_has_drop_the_front_end) {
  for (const size_t count : {9U, 32U}) {
    Negotiated at;
    const sys::Fd fd = eventfd();
    const std::vector<int> fds(count, fd.get());
    at.fe.send(Request::set_owner, {}, fds, kNeedReply);
    at.check_dropped();
  }
}

// SCM_RIGHTS truncation (MSG_CTRUNC): more than the receiver's control buffer holds.
BOOST_AUTO_TEST_CASE(truncated_descriptors_drop_the_front_end) {
  Negotiated at;
  const sys::Fd fd = eventfd();
  constexpr size_t kMany = 100;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMany)] = {};
  sys::Bytes bytes;
  sys::append_le(bytes, Header{static_cast<uint32_t>(Request::set_owner), kNeedReply, 0});
  iovec iov{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * kMany);
  const std::vector<int> fds(kMany, fd.get());
  std::copy_n(reinterpret_cast<const unsigned char*>(fds.data()), kMany * sizeof(int), CMSG_DATA(header));
  BOOST_REQUIRE(::sendmsg(at.fe.socket(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
  at.check_dropped();
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(acknowledgements)

BOOST_AUTO_TEST_CASE(only_those_who_ask_get_one) {
  Negotiated at;
  at.fe.send(Request::set_owner);
  BOOST_TEST(at.fe.ack(Request::set_owner).value() == 0U);
  at.fe.send(Request::get_queue_num, {}, {}, kNeedReply);  // its answer is its acknowledgement
  BOOST_TEST(at.fe.receive().value().payload.size() == 8U);
  BOOST_TEST(!at.fe.receive(support::kQuiet));
}

BOOST_AUTO_TEST_CASE(none_is_sent_before_reply_ack_was_negotiated) {
  EchoDaemon daemon;
  FakeFrontEnd fe(daemon.path(), {.queues = 2, .protocol = kProtocolMq});
  fe.negotiate();
  fe.send(Request::set_owner, {}, {}, kNeedReply);
  BOOST_TEST(!fe.receive(support::kQuiet));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(features)

BOOST_AUTO_TEST_CASE(features_beyond_the_offered_are_refused) {
  Negotiated at;
  for (const unsigned bit : {0U, 24U, 26U, 27U, 33U, 34U, 63U}) {
    BOOST_TEST(
        at.fe.ack(Request::set_features, FakeFrontEnd::u64(kFeatureVersion1 | (1ULL << bit))).value() != 0U);
  }
  BOOST_TEST(at.fe.ack(Request::set_features, FakeFrontEnd::u64(kFeatureVersion1)).value() == 0U);
}

BOOST_AUTO_TEST_CASE(protocol_features_beyond_the_offered_are_refused) {
  Negotiated at;
  for (const unsigned bit : {1U, 2U, 9U, 12U, 14U, 16U, 63U}) {
    BOOST_TEST(at.fe.ack(Request::set_protocol_features, FakeFrontEnd::u64(kProtocolReplyAck | (1ULL << bit)))
                   .value() != 0U);
  }
}

BOOST_AUTO_TEST_CASE(features_do_not_change_under_a_running_ring) {
  Running at;
  BOOST_TEST(
      at.fe.ack(Request::set_features, FakeFrontEnd::u64(kFeatureVersion1 | kFeatureProtocol)).value() != 0U);
  BOOST_TEST(at.fe.ack(Request::set_features, FakeFrontEnd::u64(at.fe.features())).value() == 0U);
  at.check_served();
}

BOOST_AUTO_TEST_CASE(enabling_a_ring_before_protocol_features_is_refused) {
  Negotiated at;
  BOOST_TEST(at.fe.ack(Request::set_features, FakeFrontEnd::u64(kFeatureVersion1)).value() == 0U);
  BOOST_TEST(at.fe.ack(Request::set_vring_enable, FakeFrontEnd::ring_state(0, 1)).value() != 0U);
}

BOOST_AUTO_TEST_CASE(a_ring_of_a_legacy_driver_is_not_started) {
  EchoDaemon daemon;
  FakeFrontEnd fe(daemon.path(), {.queues = 1, .features = kFeatureProtocol});
  BOOST_CHECK_THROW(fe.handshake(), std::runtime_error);
  BOOST_TEST(daemon.inside([](Backend&, EchoDevice& device) { return device.starts; }) == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(config_space)

BOOST_AUTO_TEST_CASE(an_empty_one_is_not_offered) {
  Negotiated at;
  BOOST_TEST((at.fe.get_u64(Request::get_protocol_features) & kProtocolConfig) == 0U);
  at.fe.send(Request::get_config, config_request(0, 8, 0, 8));
  BOOST_TEST(at.fe.receive().value().payload.empty());
  BOOST_TEST(at.daemon.counters().messages_refused == 1U);
}

BOOST_AUTO_TEST_CASE(a_window_inside_it_is_read_and_one_beyond_it_is_not) {
  EchoDaemon::Setup setup;
  for (int i = 0; i < 8; ++i) setup.config.push_back(static_cast<std::byte>(i));
  Negotiated at(std::move(setup));
  at.fe.send(Request::get_config, config_request(2, 4, 0, 4));
  const auto reply = at.fe.receive().value();
  BOOST_TEST(sys::to_hex(reply.payload) ==
             "02000000"
             "04000000"
             "00000000"
             "02030405");

  struct Case {
    uint32_t offset, size, flags;
    size_t body;
  };
  for (const Case& bad : {Case{0, 9, 0, 9}, Case{8, 1, 0, 1}, Case{9, 1, 0, 1}, Case{0xfffffffc, 8, 0, 8},
                          Case{0, 8, 2, 8}, Case{0, 8, 0, 7}, Case{0, 8, 0, 9}, Case{0, 0, 0, 0},
                          Case{0, 257, 0, 257}, Case{0, 0xffffffff, 0, 8}}) {
    at.fe.send(Request::get_config, config_request(bad.offset, bad.size, bad.flags, bad.body));
    BOOST_TEST(at.fe.receive().value().payload.empty());
  }
  BOOST_TEST(at.daemon.counters().messages_refused == 10U);
}

BOOST_AUTO_TEST_CASE(it_is_never_written) {
  EchoDaemon::Setup setup;
  setup.config.resize(8);
  Negotiated at(std::move(setup));
  BOOST_TEST(at.fe.ack(Request::set_config, config_request(0, 8, 0, 8)).value() != 0U);
  BOOST_TEST(at.fe.ack(Request::set_config, config_request(4, 8, 0, 8)).value() != 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::vhost
