// docs/hostile-guest, section 1, rules 2, 5, 6 and 10: regions that are added and removed one at a time.
#include "tests/guest/vhost/running.h"

namespace turnbox::vhost {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kFar = 1ULL << 40;  // apart from the front end's own memory, in both address spaces

// A front end whose rings run, and a second piece of memory that the daemon has not seen.
struct Slots {
  uint64_t add(const Region& region) {
    const int fd = more.fd();
    return at.fe.ack(Request::add_mem_reg, FakeFrontEnd::one_region(region), std::span(&fd, 1)).value();
  }
  uint64_t remove(const Region& region) {
    return at.fe.ack(Request::rem_mem_reg, FakeFrontEnd::one_region(region)).value();
  }
  void check_refused(const Region& region) {
    BOOST_TEST(add(region) != 0U);
    at.check_served();
  }
  // A chain on queue 0 whose only descriptor is at this guest address, told by the ring's cells alone.
  void post_raw(uint64_t gpa) {
    support::FakeRing& ring = at.fe.ring(0);
    support::GuestMemory& memory = at.fe.memory();
    const uint16_t next = ring.avail_idx();
    memory.store(ring.desc(), support::Desc{gpa, 16, support::kWrite, 0});
    memory.store<uint16_t>(ring.avail() + 4 + 2 * (next % ring.size()), 0);
    memory.store(ring.avail() + 2, static_cast<uint16_t>(next + 1));
    ring.kick();
  }

  Running at;
  support::GuestMemory more{kMiB};
  const Region far{kFar, kMiB, kFar, 0};
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(memory_slots, Slots)

BOOST_AUTO_TEST_CASE(the_number_of_slots_is_told) {
  BOOST_TEST(at.fe.get_u64(Request::get_max_mem_slots) == kMaxMemSlots);
}

BOOST_AUTO_TEST_CASE(without_the_feature_every_one_of_them_is_refused) {
  EchoDaemon daemon;
  FakeFrontEnd fe(daemon.path(), {.queues = 2, .protocol = kProtocolReplyAck});
  fe.handshake();
  const int fd = more.fd();
  BOOST_TEST(fe.ack(Request::add_mem_reg, FakeFrontEnd::one_region(far), std::span(&fd, 1)).value() != 0U);
  BOOST_TEST(fe.ack(Request::rem_mem_reg, FakeFrontEnd::one_region(fe.memory().region())).value() != 0U);
  BOOST_TEST(fe.ack(Request::reset_device).value() != 0U);
  BOOST_TEST(daemon.counters().messages_refused == 3U);
  BOOST_TEST(sys::as_text(fe.request(0, sys::as_bytes("word"), 64).bytes) == "word");
  fe.send(Request::get_max_mem_slots);
  BOOST_TEST(fe.closed());
}

BOOST_AUTO_TEST_CASE(rings_start_in_memory_that_came_by_regions) {
  EchoDaemon daemon;
  FakeFrontEnd fe(daemon.path(), {.queues = 2});
  fe.negotiate();
  const Region all = fe.memory().region();
  const uint64_t half = all.size / 2;
  const int fd = fe.memory().fd();
  for (const Region& part :
       {Region{all.gpa, half, all.uva, 0}, Region{all.gpa + half, half, all.uva + half, half}}) {
    BOOST_TEST(fe.ack(Request::add_mem_reg, FakeFrontEnd::one_region(part), std::span(&fd, 1)).value() == 0U);
  }
  for (unsigned queue = 0; queue < 2; ++queue) {
    fe.set_up_ring(queue);
    fe.enable_ring(queue);
  }
  BOOST_TEST(sys::as_text(fe.request(0, sys::as_bytes("word"), 64).bytes) == "word");
}

BOOST_AUTO_TEST_CASE(rings_that_were_set_up_first_start_with_the_region_that_holds_them) {
  EchoDaemon daemon;
  FakeFrontEnd fe(daemon.path(), {.queues = 2});
  fe.negotiate();
  for (unsigned queue = 0; queue < 2; ++queue) {
    fe.set_up_ring(queue);
    fe.enable_ring(queue);
  }
  const int elsewhere = more.fd(), here = fe.memory().fd();
  BOOST_TEST(fe.ack(Request::add_mem_reg, FakeFrontEnd::one_region(far), std::span(&elsewhere, 1)).value() ==
             0U);
  BOOST_TEST(daemon.inside([](Backend&, EchoDevice& device) { return device.starts; }) == 0U);
  BOOST_TEST(fe.ack(Request::add_mem_reg, FakeFrontEnd::one_region(fe.memory().region()), std::span(&here, 1))
                 .value() == 0U);
  BOOST_TEST(sys::as_text(fe.request(1, sys::as_bytes("word"), 64).bytes) == "word");
}

BOOST_AUTO_TEST_CASE(a_chain_may_lie_in_a_region_added_under_running_rings) {
  for (int i = 0; i < 4; ++i) at.fe.post(1, sys::as_bytes("hold"), 64);
  BOOST_TEST(at.chains_reach(4));
  BOOST_TEST(add(far) == 0U);
  BOOST_TEST(at.fe.ring(1).used_idx() == 0U);  // nothing of what is in flight was disturbed
  const uint16_t used = at.fe.ring(0).used_idx();
  post_raw(kFar + 4096);
  BOOST_TEST(at.used_reaches(0, static_cast<uint16_t>(used + 1)));
  BOOST_TEST(at.daemon.counters().queue_faults == 0U);
  at.fe.post(1, sys::as_bytes("word"), 64);
  for (const char* word : {"hold", "hold", "hold", "hold", "word"})
    BOOST_TEST(sys::as_text(at.fe.next(1).value().bytes) == word);
}

BOOST_AUTO_TEST_CASE(a_region_that_is_added_breaks_no_rule) {
  check_refused({kFar, 0, kFar, 0});
  check_refused({~0ULL - 4095, 8192, kFar, 0});
  check_refused({kFar, 8192, ~0ULL - 4095, 0});
  check_refused({kFar, 8192, kFar, ~0ULL - 4095});
  check_refused({kFar, kMiB + 1, kFar, 0});
  check_refused({kFar, kMiB, kFar, 1});
  const Region own = at.fe.memory().region();
  check_refused({own.gpa + own.size - 1, 4096, kFar, 0});
  check_refused({kFar, 4096, own.uva + own.size - 1, 0});
  check_refused(own);
  BOOST_TEST(at.daemon.counters().messages_refused == 9U);
}

BOOST_AUTO_TEST_CASE(a_region_that_is_added_is_sealed) {
  support::GuestMemory loose(kMiB, F_SEAL_GROW);
  const int fd = loose.fd();
  BOOST_TEST(at.fe.ack(Request::add_mem_reg, FakeFrontEnd::one_region(far), std::span(&fd, 1)).value() != 0U);
  at.check_served();
}

BOOST_AUTO_TEST_CASE(a_region_is_added_with_one_descriptor) {
  const int fds[] = {more.fd(), more.fd()};
  const auto payload = FakeFrontEnd::one_region(far);
  BOOST_TEST(at.fe.ack(Request::add_mem_reg, payload).value() != 0U);
  BOOST_TEST(at.fe.ack(Request::add_mem_reg, payload, fds).value() != 0U);
  at.check_served();
}

BOOST_AUTO_TEST_CASE(no_more_regions_than_slots) {
  for (uint64_t i = 1; i < kMaxMemSlots; ++i)
    BOOST_TEST(add({kFar + i * kMiB, 4096, kFar + i * kMiB, 0}) == 0U);
  check_refused({kFar + kMaxMemSlots * kMiB, 4096, kFar + kMaxMemSlots * kMiB, 0});
  BOOST_TEST(remove({kFar + kMiB, 4096, kFar + kMiB, 0}) == 0U);
  BOOST_TEST(add({kFar + kMaxMemSlots * kMiB, 4096, kFar + kMaxMemSlots * kMiB, 0}) == 0U);
  at.check_served();
}

BOOST_AUTO_TEST_CASE(only_a_region_that_is_there_is_removed) {
  BOOST_TEST(add(far) == 0U);
  BOOST_TEST(remove({kFar, kMiB, kFar + 4096, 0}) != 0U);
  BOOST_TEST(remove({kFar, kMiB - 1, kFar, 0}) != 0U);
  BOOST_TEST(remove({kFar, 2 * kMiB, kFar, 0}) != 0U);
  BOOST_TEST(remove({kFar + 4096, 4096, kFar + 4096, 0}) != 0U);
  at.check_served();
  BOOST_TEST(remove(far) == 0U);
  BOOST_TEST(remove(far) != 0U);
  at.check_served();
}

BOOST_AUTO_TEST_CASE(a_descriptor_that_came_with_a_removal_is_not_used) {
  BOOST_TEST(add(far) == 0U);
  const int fd = more.fd();
  BOOST_TEST(at.fe.ack(Request::rem_mem_reg, FakeFrontEnd::one_region(far), std::span(&fd, 1)).value() == 0U);
  at.check_served();
}

BOOST_AUTO_TEST_CASE(what_was_held_is_let_go_before_a_region_goes) {
  BOOST_TEST(add(far) == 0U);
  for (int i = 0; i < 8; ++i) at.fe.post(1, sys::as_bytes("hold"), 64);
  BOOST_TEST(at.chains_reach(8));
  BOOST_TEST(remove(far) == 0U);
  for (int i = 0; i < 8; ++i) BOOST_TEST(at.fe.next(1).value().len == 0U);
  at.check_served();
  BOOST_TEST(at.daemon.counters().queue_faults == 0U);
}

BOOST_AUTO_TEST_CASE(a_removed_region_is_no_memory_any_more) {
  BOOST_TEST(add(far) == 0U);
  BOOST_TEST(remove(far) == 0U);
  post_raw(kFar + 4096);
  at.check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(rings_in_a_removed_region_stop_with_a_fault_until_it_is_back) {
  const Region own = at.fe.memory().region();
  BOOST_TEST(remove(own) == 0U);
  for (unsigned queue = 0; queue < 2; ++queue)
    BOOST_TEST(support::signalled(at.fe.ring(queue).err_fd(), support::kDeadline));
  BOOST_TEST(at.daemon.counters().queue_faults == 2U);
  at.fe.post(0, sys::as_bytes("word"), 64);
  at.fe.ring(0).kick();
  BOOST_TEST(!at.fe.next(0, support::kQuiet));
  const int fd = at.fe.memory().fd();
  BOOST_TEST(at.fe.ack(Request::add_mem_reg, FakeFrontEnd::one_region(own), std::span(&fd, 1)).value() == 0U);
  BOOST_TEST(sys::as_text(at.fe.next(0).value().bytes) == "word");
  at.check_served();
  BOOST_TEST(at.daemon.counters().queue_faults == 2U);
}

BOOST_AUTO_TEST_CASE(a_table_replaces_regions_that_were_added) {
  BOOST_TEST(add(far) == 0U);
  at.fe.share_memory();
  at.check_served();
  BOOST_TEST(remove(far) != 0U);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(device_reset, Slots)

BOOST_AUTO_TEST_CASE(a_reset_ends_the_devices_session_and_frees_what_was_configured) {
  for (int i = 0; i < 4; ++i) at.fe.post(1, sys::as_bytes("hold"), 64);
  BOOST_TEST(at.chains_reach(4));
  BOOST_TEST(at.fe.ack(Request::reset_device).value() == 0U);
  BOOST_TEST(at.daemon.wait_for_resets(1));
  for (int i = 0; i < 4; ++i) BOOST_TEST(at.fe.next(1).value().len == 0U);
  BOOST_TEST(at.daemon.inside([](Backend&, EchoDevice& device) { return device.starts - device.stops; }) ==
             0U);
  // Nothing runs: not when it is kicked, nor when it is enabled without being set up.
  at.fe.post(0, sys::as_bytes("word"), 64);
  at.fe.ring(0).kick();
  at.fe.send(Request::set_vring_enable, FakeFrontEnd::ring_state(0, 1));
  BOOST_TEST(!at.fe.next(0, support::kQuiet));
}

BOOST_AUTO_TEST_CASE(after_a_reset_the_device_is_set_up_again_in_the_memory_that_is_there) {
  for (int round = 0; round < 3; ++round) {
    at.check_served();
    BOOST_TEST(at.fe.ack(Request::reset_device).value() == 0U);
    BOOST_TEST(at.fe.ack(Request::set_features, FakeFrontEnd::u64(at.fe.features())).value() == 0U);
    for (unsigned queue = 0; queue < 2; ++queue) {
      at.fe.set_up_ring(queue, at.fe.ring(queue).avail_idx());
      at.fe.enable_ring(queue);
    }
  }
  at.check_served();
  BOOST_TEST(at.daemon.wait_for_resets(3));
  BOOST_TEST(at.daemon.counters().messages_refused == 0U);
}

BOOST_AUTO_TEST_CASE(a_broken_ring_is_whole_again_after_a_reset) {
  post_raw(0x10);
  at.check_broke_queue_0_only();
  BOOST_TEST(at.fe.ack(Request::reset_device).value() == 0U);
  BOOST_TEST(at.fe.ack(Request::set_features, FakeFrontEnd::u64(at.fe.features())).value() == 0U);
  at.fe.set_up_ring(0, at.fe.ring(0).avail_idx());
  at.fe.enable_ring(0);
  BOOST_TEST(at.answers(0));
}

BOOST_AUTO_TEST_CASE(resets_may_come_one_after_the_other) {
  for (int i = 0; i < 100; ++i) BOOST_TEST(at.fe.ack(Request::reset_device).value() == 0U);
  BOOST_TEST(at.daemon.wait_for_resets(100));
  BOOST_TEST(!at.fe.closed(support::kQuiet));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::vhost
