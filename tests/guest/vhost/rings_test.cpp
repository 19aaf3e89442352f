// docs/hostile-guest, section 1, rules 6 to 9: how a ring is configured, started and stopped.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "tests/guest/vhost/running.h"

namespace turnbox::vhost {
namespace {

using support::kQuiet;

// Negotiated, memory shared, no ring configured.
struct Shared {
  Shared() : fe(daemon.path(), {.queues = 2}) {
    fe.negotiate();
    fe.share_memory();
  }
  bool refused(Request request, const sys::Bytes& payload, std::span<const int> fds = {}) {
    return fe.ack(request, payload, fds).value() != 0;
  }
  sys::Bytes address(uint64_t desc, uint64_t avail, uint64_t used, uint32_t flags = 0) {
    sys::Bytes bytes;
    sys::append_le(bytes, RingAddress{0, flags, desc, used, avail, 0});
    return bytes;
  }
  EchoDaemon daemon;
  FakeFrontEnd fe;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(ring_set_up)

// 0x10000 and 0x10100 would narrow to 0 and 256.
BOOST_FIXTURE_TEST_CASE(a_size_is_a_power_of_two_up_to_the_devices_maximum, Shared) {
  for (const uint32_t size :
       {0U, 3U, 65U, 255U, 512U, 0x8000U, 0x10000U, 0x10100U, 0x80000000U, 0xffffffffU}) {
    BOOST_TEST(refused(Request::set_vring_num, FakeFrontEnd::ring_state(0, size)), size);
  }
  for (const uint32_t size : {1U, 2U, 128U, 256U}) {
    BOOST_TEST(!refused(Request::set_vring_num, FakeFrontEnd::ring_state(0, size)), size);
  }
}

BOOST_FIXTURE_TEST_CASE(a_base_has_16_bits, Shared) {
  BOOST_TEST(refused(Request::set_vring_base, FakeFrontEnd::ring_state(0, 0x10000)));
  BOOST_TEST(refused(Request::set_vring_base, FakeFrontEnd::ring_state(0, 0xffffffff)));
  BOOST_TEST(!refused(Request::set_vring_base, FakeFrontEnd::ring_state(0, 0xffff)));
}

BOOST_FIXTURE_TEST_CASE(an_index_beyond_the_queues_is_refused_in_every_message, Shared) {
  for (const uint32_t index : {2U, 255U, 256U, 0xffffffffU}) {
    for (const Request request :
         {Request::set_vring_num, Request::set_vring_base, Request::set_vring_enable}) {
      BOOST_TEST(refused(request, FakeFrontEnd::ring_state(index, 1)));
    }
    sys::Bytes bytes;
    sys::append_le(bytes, RingAddress{index, 0, fe.memory().uva(fe.ring(0).desc()), 0, 0, 0});
    BOOST_TEST(refused(Request::set_vring_addr, bytes));
  }
  const int fd = fe.ring(0).kick_fd();
  for (const Request request : {Request::set_vring_kick, Request::set_vring_call, Request::set_vring_err}) {
    BOOST_TEST(refused(request, FakeFrontEnd::u64(2), std::span(&fd, 1)));
    BOOST_TEST(refused(request, FakeFrontEnd::u64(255), std::span(&fd, 1)));
    BOOST_TEST(refused(request, FakeFrontEnd::u64(1ULL << 9), std::span(&fd, 1)));  // a reserved bit
    BOOST_TEST(refused(request, FakeFrontEnd::u64(1ULL << 63), std::span(&fd, 1)));
  }
  BOOST_TEST(!fe.ring(0).used_idx());
}

BOOST_FIXTURE_TEST_CASE(an_index_beyond_the_queues_in_a_question_drops_the_front_end, Shared) {
  fe.send(Request::get_vring_base, FakeFrontEnd::ring_state(2, 0));
  BOOST_TEST(fe.closed());
  check_next_client(daemon);
}

BOOST_FIXTURE_TEST_CASE(a_ring_area_lies_in_one_region, Shared) {
  BOOST_TEST(!refused(Request::set_vring_num, FakeFrontEnd::ring_state(0, 64)));
  const Region region = fe.memory().region();
  const uint64_t start = region.uva, end = region.uva + region.size;
  BOOST_TEST(refused(Request::set_vring_addr, address(end - 16 * 64 + 16, start, start + 4096)));
  BOOST_TEST(refused(Request::set_vring_addr, address(start, end - 6 - 2 * 64 + 2, start + 4096)));
  BOOST_TEST(refused(Request::set_vring_addr, address(start, start + 4096, end - 6 - 8 * 64 + 2)));
  BOOST_TEST(refused(Request::set_vring_addr, address(0, start, start + 4096)));
  BOOST_TEST(refused(Request::set_vring_addr, address(~0ULL - 15, start, start + 4096)));
  BOOST_TEST(refused(Request::set_vring_addr, address(start, 0, 0)));
  BOOST_TEST(!refused(Request::set_vring_addr, address(end - 16 * 64, start, start + 4096)));
}

BOOST_FIXTURE_TEST_CASE(a_ring_area_that_crosses_two_regions_is_refused, Shared) {
  const Region all = fe.memory().region();
  const uint64_t half = all.size / 2;
  const Region halves[] = {{all.gpa, half, all.uva, 0}, {all.gpa + half, half, all.uva + half, half}};
  const int fds[] = {fe.memory().fd(), fe.memory().fd()};
  BOOST_TEST(!refused(Request::set_mem_table, FakeFrontEnd::mem_table(halves), fds));
  BOOST_TEST(!refused(Request::set_vring_num, FakeFrontEnd::ring_state(0, 64)));
  BOOST_TEST(refused(Request::set_vring_addr, address(all.uva + half - 512, all.uva, all.uva + 4096)));
}

BOOST_FIXTURE_TEST_CASE(a_ring_area_is_aligned, Shared) {
  BOOST_TEST(!refused(Request::set_vring_num, FakeFrontEnd::ring_state(0, 64)));
  const uint64_t at = fe.memory().region().uva;
  BOOST_TEST(refused(Request::set_vring_addr, address(at + 8, at + 8192, at + 12288)));
  BOOST_TEST(refused(Request::set_vring_addr, address(at, at + 8193, at + 12288)));
  BOOST_TEST(refused(Request::set_vring_addr, address(at, at + 8192, at + 12290)));
  BOOST_TEST(!refused(Request::set_vring_addr, address(at, at + 8194, at + 12292)));
}

// The front end's addresses may be aligned while the file's bytes are not.
BOOST_FIXTURE_TEST_CASE(a_ring_area_is_aligned_in_the_file_too, Shared) {
  const Region all = fe.memory().region();
  const Region odd{all.gpa, all.size - 4096, all.uva, 1};
  const int fd = fe.memory().fd();
  BOOST_TEST(
      !refused(Request::set_mem_table, FakeFrontEnd::mem_table(std::span(&odd, 1)), std::span(&fd, 1)));
  BOOST_TEST(!refused(Request::set_vring_num, FakeFrontEnd::ring_state(0, 64)));
  BOOST_TEST(refused(Request::set_vring_addr, address(all.uva, all.uva + 8192, all.uva + 12288)));
}

BOOST_FIXTURE_TEST_CASE(ring_areas_do_not_overlap, Shared) {
  BOOST_TEST(!refused(Request::set_vring_num, FakeFrontEnd::ring_state(0, 64)));
  const uint64_t at = fe.memory().region().uva;
  BOOST_TEST(refused(Request::set_vring_addr, address(at, at + 16 * 64 - 2, at + 8192)));
  BOOST_TEST(refused(Request::set_vring_addr, address(at, at + 8192, at + 8192)));
  BOOST_TEST(refused(Request::set_vring_addr, address(at + 4096, at + 8192, at + 4096 + 16)));
  BOOST_TEST(!refused(Request::set_vring_addr, address(at, at + 16 * 64, at + 8192)));
}

BOOST_FIXTURE_TEST_CASE(an_address_that_came_before_the_size_is_judged_at_the_start, Shared) {
  const uint64_t end = fe.memory().region().uva + fe.memory().size();
  BOOST_TEST(!refused(Request::set_vring_addr, address(end - 16, end - 4096, end - 8192)));  // fits one entry
  const int kick = fe.ring(0).kick_fd();
  BOOST_TEST(!refused(Request::set_vring_kick, FakeFrontEnd::u64(0), std::span(&kick, 1)));
  BOOST_TEST(!refused(Request::set_vring_enable, FakeFrontEnd::ring_state(0, 1)));
  BOOST_TEST(refused(Request::set_vring_num, FakeFrontEnd::ring_state(0, 64)));
}

BOOST_FIXTURE_TEST_CASE(logging_of_a_ring_is_refused, Shared) {
  const uint64_t at = fe.memory().region().uva;
  BOOST_TEST(refused(Request::set_vring_addr, address(at, at + 8192, at + 12288, 1)));
}

BOOST_FIXTURE_TEST_CASE(enable_is_0_or_1, Shared) {
  BOOST_TEST(refused(Request::set_vring_enable, FakeFrontEnd::ring_state(0, 2)));
  BOOST_TEST(refused(Request::set_vring_enable, FakeFrontEnd::ring_state(0, 0xffffffff)));
}

BOOST_AUTO_TEST_CASE(messages_in_any_order_start_the_ring) {
  EchoDaemon daemon;
  FakeFrontEnd fe(daemon.path());
  const int kick = fe.ring(0).kick_fd(), call = fe.ring(0).call_fd(), memory = fe.memory().fd();
  const Region region = fe.memory().region();
  // Nothing before the first message, protocol features without having asked for them, memory last.
  fe.send(Request::set_protocol_features, FakeFrontEnd::u64(kProtocolReplyAck));
  BOOST_TEST(fe.ack(Request::set_vring_kick, FakeFrontEnd::u64(0), std::span(&kick, 1)).value() == 0U);
  BOOST_TEST(fe.ack(Request::set_vring_addr, fe.ring_address(0)).value() == 0U);
  BOOST_TEST(fe.ack(Request::set_vring_num, FakeFrontEnd::ring_state(0, 64)).value() == 0U);
  BOOST_TEST(
      fe.ack(Request::set_features, FakeFrontEnd::u64(kFeatureVersion1 | kFeatureProtocol | kFeatureEventIdx))
          .value() == 0U);
  BOOST_TEST(fe.ack(Request::set_vring_enable, FakeFrontEnd::ring_state(0, 1)).value() == 0U);
  BOOST_TEST(fe.ack(Request::set_vring_call, FakeFrontEnd::u64(0), std::span(&call, 1)).value() == 0U);
  BOOST_TEST(daemon.inside([](Backend&, EchoDevice& device) { return device.starts; }) == 0U);
  BOOST_TEST(
      fe.ack(Request::set_mem_table, FakeFrontEnd::mem_table(std::span(&region, 1)), std::span(&memory, 1))
          .value() == 0U);
  BOOST_TEST(daemon.inside([](Backend&, EchoDevice& device) { return device.starts; }) == 1U);
  BOOST_TEST(sys::as_text(fe.request(0, sys::as_bytes("word"), 64).bytes) == "word");
}

BOOST_AUTO_TEST_CASE(without_protocol_features_a_ring_needs_no_enable) {
  EchoDaemon daemon;
  FakeFrontEnd fe(daemon.path(), {.queues = 2, .features = kFeatureVersion1});
  fe.handshake();
  BOOST_TEST(sys::as_text(fe.request(1, sys::as_bytes("word"), 64).bytes) == "word");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(running_ring)

BOOST_AUTO_TEST_CASE(its_shape_does_not_change) {
  Running at;
  BOOST_TEST(at.fe.ack(Request::set_vring_num, FakeFrontEnd::ring_state(0, 32)).value() != 0U);
  BOOST_TEST(at.fe.ack(Request::set_vring_base, FakeFrontEnd::ring_state(0, 7)).value() != 0U);
  BOOST_TEST(at.fe.ack(Request::set_vring_addr, at.fe.ring_address(1)).value() != 0U);
  at.check_served();
}

BOOST_AUTO_TEST_CASE(a_disabled_one_does_nothing_and_goes_on_where_it_was) {
  Running at;
  at.fe.enable_ring(0, false);
  at.fe.post(0, sys::as_bytes("word"), 64);
  at.fe.ring(0).kick();
  BOOST_TEST(!at.fe.next(0, kQuiet));
  BOOST_TEST(at.answers(1));
  at.fe.enable_ring(0, true);
  BOOST_TEST(sys::as_text(at.fe.next(0).value().bytes) == "word");
}

BOOST_AUTO_TEST_CASE(reset_owner_disables_all) {
  Running at;
  BOOST_TEST(at.fe.ack(Request::reset_owner).value() == 0U);
  at.fe.post(0, sys::as_bytes("word"), 64);
  at.fe.ring(0).kick();
  BOOST_TEST(!at.fe.next(0, kQuiet));
  at.fe.enable_ring(0, true);
  BOOST_TEST(sys::as_text(at.fe.next(0).value().bytes) == "word");
}

BOOST_AUTO_TEST_CASE(get_vring_base_stops_it_and_tells_the_next_index) {
  Running at;
  for (int i = 0; i < 5; ++i) BOOST_TEST(at.answers(0));
  at.fe.send(Request::get_vring_base, FakeFrontEnd::ring_state(0, 0));
  const auto state = sys::load_le<RingState>(at.fe.receive().value().payload.data());
  BOOST_TEST(state.index == 0U);
  BOOST_TEST(state.value == 5U);
  // Kicks reach nobody: the descriptor was closed, and only a new one starts the ring.
  at.fe.post(0, sys::as_bytes("word"), 64);
  at.fe.ring(0).kick();
  BOOST_TEST(!at.fe.next(0, kQuiet));
  BOOST_TEST(at.answers(1));
  at.fe.set_up_ring(0, static_cast<uint16_t>(state.value));
  BOOST_TEST(sys::as_text(at.fe.next(0).value().bytes) == "word");
}

BOOST_AUTO_TEST_CASE(get_vring_base_of_one_that_never_ran_tells_its_base) {
  Shared at;
  BOOST_TEST(!at.refused(Request::set_vring_base, FakeFrontEnd::ring_state(1, 77)));
  at.fe.send(Request::get_vring_base, FakeFrontEnd::ring_state(1, 0));
  BOOST_TEST(sys::load_le<RingState>(at.fe.receive().value().payload.data()).value == 77U);
}

BOOST_AUTO_TEST_CASE(get_vring_base_drains_what_the_device_holds) {
  Running at;
  at.fe.post(1, sys::as_bytes("hold"), 64);
  BOOST_TEST(at.chains_reach(1));
  at.fe.send(Request::get_vring_base, FakeFrontEnd::ring_state(1, 0));
  BOOST_TEST(sys::load_le<RingState>(at.fe.receive().value().payload.data()).value == 1U);
  const auto done = at.fe.next(1);
  BOOST_TEST(done.value().len == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(event_descriptors)

BOOST_FIXTURE_TEST_CASE(files_and_sockets_are_refused, Shared) {
  const sys::Fd file(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  auto pair = sys::socket_pair(SOCK_STREAM);
  for (const int fd : {file.get(), pair->first.get(), fe.memory().fd()}) {
    for (const Request request : {Request::set_vring_kick, Request::set_vring_call, Request::set_vring_err}) {
      BOOST_TEST(refused(request, FakeFrontEnd::u64(0), std::span(&fd, 1)));
    }
  }
}

// A pipe whose reader left would raise SIGPIPE in the daemon.
BOOST_FIXTURE_TEST_CASE(a_pipe_to_be_written_is_refused, Shared) {
  int ends[2];
  BOOST_REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const sys::Fd read_end(ends[0]), write_end(ends[1]);
  BOOST_TEST(refused(Request::set_vring_call, FakeFrontEnd::u64(0), std::span(ends + 1, 1)));
  BOOST_TEST(refused(Request::set_vring_err, FakeFrontEnd::u64(0), std::span(ends + 1, 1)));
}

BOOST_FIXTURE_TEST_CASE(a_ring_that_would_have_to_be_polled_is_refused, Shared) {
  BOOST_TEST(refused(Request::set_vring_kick, FakeFrontEnd::u64(kNoFd)));
}

BOOST_AUTO_TEST_CASE(a_kick_pipe_that_ended_breaks_the_ring_and_does_not_spin) {
  Running at;
  int ends[2];
  BOOST_REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  sys::Fd read_end(ends[0]), write_end(ends[1]);
  BOOST_TEST(at.fe.ack(Request::set_vring_kick, FakeFrontEnd::u64(0), std::span(ends, 1)).value() == 0U);
  // It serves kicks by a pipe as well.
  at.fe.post(0, sys::as_bytes("word"), 64);
  BOOST_REQUIRE(::write(write_end.get(), "k", 1) == 1);
  BOOST_TEST(sys::as_text(at.fe.next(0).value().bytes) == "word");
  write_end.reset();
  BOOST_TEST(support::signalled(at.fe.ring(0).err_fd(), support::kDeadline));
  BOOST_TEST(at.daemon.counters().queue_faults == 1U);
  BOOST_TEST(at.answers(1));
}

BOOST_AUTO_TEST_CASE(a_kick_that_is_always_readable_and_never_read_breaks_the_ring) {
  Running at;
  const sys::Fd ready(::eventfd(1, EFD_CLOEXEC));
  const sys::Fd poller(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{EPOLLIN, {}};
  BOOST_REQUIRE(::epoll_ctl(poller.get(), EPOLL_CTL_ADD, ready.get(), &event) == 0);
  const int fd = poller.get();
  BOOST_TEST(at.fe.ack(Request::set_vring_kick, FakeFrontEnd::u64(0), std::span(&fd, 1)).value() == 0U);
  BOOST_TEST(support::signalled(at.fe.ring(0).err_fd(), support::kDeadline));
  BOOST_TEST(at.answers(1));
}

BOOST_AUTO_TEST_CASE(a_kick_that_never_stops_leaves_the_other_queue_its_turn) {
  Running at;
  const sys::Fd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  const itimerspec always{{0, 1}, {0, 1}};
  BOOST_REQUIRE(::timerfd_settime(timer.get(), 0, &always, nullptr) == 0);
  const int fd = timer.get();
  BOOST_TEST(at.fe.ack(Request::set_vring_kick, FakeFrontEnd::u64(0), std::span(&fd, 1)).value() == 0U);
  for (int i = 0; i < 50; ++i) BOOST_TEST(at.answers(1));
  BOOST_TEST(at.daemon.counters().queue_faults == 0U);
}

BOOST_AUTO_TEST_CASE(a_full_call_descriptor_does_not_block) {
  Running at;
  const sys::Fd full(::eventfd(0, EFD_CLOEXEC));  // blocking, as the front end made it
  const uint64_t most = UINT64_MAX - 1;
  BOOST_REQUIRE(::write(full.get(), &most, sizeof most) == sizeof most);
  const int fd = full.get();
  BOOST_TEST(at.fe.ack(Request::set_vring_call, FakeFrontEnd::u64(0), std::span(&fd, 1)).value() == 0U);
  at.fe.post(0, sys::as_bytes("word"), 64);
  BOOST_TEST(at.used_reaches(0, 1));
  BOOST_TEST(at.answers(1));
  BOOST_TEST(sys::as_text(at.fe.next(0, kQuiet).value().bytes) == "word");
}

BOOST_AUTO_TEST_CASE(a_full_error_descriptor_does_not_block) {
  Running at;
  const sys::Fd full(::eventfd(0, EFD_CLOEXEC));
  const uint64_t most = UINT64_MAX - 1;
  BOOST_REQUIRE(::write(full.get(), &most, sizeof most) == sizeof most);
  const int fd = full.get();
  BOOST_TEST(at.fe.ack(Request::set_vring_err, FakeFrontEnd::u64(0), std::span(&fd, 1)).value() == 0U);
  at.fe.post(0, sys::as_bytes("fault"), 64);
  BOOST_TEST(at.comes_true([&] { return at.daemon.counters().queue_faults == 1; }));
  BOOST_TEST(at.answers(1));
}

BOOST_AUTO_TEST_CASE(a_ring_without_call_or_error_descriptors_serves) {
  Running at;
  BOOST_TEST(at.fe.ack(Request::set_vring_call, FakeFrontEnd::u64(kNoFd)).value() == 0U);
  BOOST_TEST(at.fe.ack(Request::set_vring_err, FakeFrontEnd::u64(kNoFd)).value() == 0U);
  at.fe.post(0, sys::as_bytes("word"), 64);
  BOOST_TEST(at.used_reaches(0, 1));
  BOOST_TEST(at.answers(1));
  // A call descriptor that comes late is told at once.
  at.silence(0);
  const int call = at.fe.ring(0).call_fd();
  BOOST_TEST(at.fe.ack(Request::set_vring_call, FakeFrontEnd::u64(0), std::span(&call, 1)).value() == 0U);
  BOOST_TEST(support::signalled(call, support::kDeadline));
  BOOST_TEST(at.fe.next(0).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::vhost
