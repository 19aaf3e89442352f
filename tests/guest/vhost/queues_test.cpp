// docs/hostile-guest, section 2: what a hostile driver puts into a virtqueue. Each breach breaks queue 0
// only.
#include <atomic>
#include <thread>

#include "tests/guest/vhost/running.h"
#include "vmm/vhost/vring.h"

namespace turnbox::vhost {
namespace {

using support::Desc;
using support::kIndirect;
using support::kNext;
using support::kQuiet;
using support::kWrite;
using support::Part;

constexpr uint16_t kSize = 64;
constexpr uint64_t kEnd = support::GuestMemory::kGpa + (16 << 20);  // of guest memory

// Raw chains on queue 0: descriptors by hand, then publish and kick.
struct Raw : Running {
  using Running::Running;
  uint64_t buffer = fe.memory().take(8192);

  void submit(std::initializer_list<Desc> descs, uint16_t head = 0) {
    uint16_t index = 0;
    for (const Desc& desc : descs) fe.ring(0).write_desc(index++, desc);
    fe.ring(0).publish(head);
    fe.ring(0).kick();
  }
  uint64_t table(std::initializer_list<Desc> descs) {
    const uint64_t at = fe.memory().take(descs.size() * sizeof(Desc));
    uint64_t next = at;
    for (const Desc& desc : descs) {
      fe.memory().store(next, desc);
      next += sizeof(Desc);
    }
    return at;
  }
  // The chain was legal: used with these bytes written.
  void check_used(uint32_t head, uint32_t len) {
    const auto used = fe.ring(0).wait_used();
    BOOST_REQUIRE(used.has_value());
    BOOST_TEST(used->head == head);
    BOOST_TEST(used->len == len);
    BOOST_TEST(daemon.counters().queue_faults == 0U);
    check_served();
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(available_ring, Raw)

BOOST_AUTO_TEST_CASE(an_index_ahead_by_more_than_the_size_is_a_fault) {
  fe.ring(0).set_avail_idx(kSize + 1);
  fe.ring(0).kick();
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(an_index_that_went_back_is_a_fault) {
  fe.ring(0).set_avail_idx(0xffff);
  fe.ring(0).kick();
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(a_full_ring_is_legal) {
  for (unsigned i = 0; i < kSize; ++i) fe.post(0, {}, 16);
  fe.ring(0).kick();
  for (unsigned i = 0; i < kSize; ++i) BOOST_TEST(fe.next(0).has_value());
  check_served();
}

BOOST_AUTO_TEST_CASE(a_head_beyond_the_ring_is_a_fault) {
  submit({{buffer, 16, 0, 0}}, kSize);
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(the_greatest_head_is_a_fault) {
  submit({{buffer, 16, 0, 0}}, 0xffff);
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(chains, Raw)

BOOST_AUTO_TEST_CASE(a_next_beyond_the_table_is_a_fault) {
  submit({{buffer, 16, kNext, kSize}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(a_chain_that_is_its_own_next_is_a_fault) {
  submit({{buffer, 16, kNext, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(a_loop_of_two_is_a_fault) {
  submit({{buffer, 16, kNext, 1}, {buffer, 16, kNext, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(a_chain_of_exactly_the_rings_size_is_legal) {
  const std::vector<Part> parts(kSize, Part{buffer, 16, true});
  const uint16_t head = fe.ring(0).add(parts);
  fe.ring(0).kick();
  check_used(head, 0);
}

BOOST_AUTO_TEST_CASE(unknown_flags_are_a_fault) {
  submit({{buffer, 16, 8, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(the_packed_rings_flags_are_unknown) {
  submit({{buffer, 16, 1U << 15 | 1U << 7, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(readable_after_writable_is_a_fault) {
  submit({{buffer, 16, kNext | kWrite, 1}, {buffer + 4096, 16, 0, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(readable_after_writable_across_an_indirect_table_is_a_fault) {
  submit({{buffer, 16, kNext | kWrite, 1}, {table({{buffer, 16, 0, 0}}), 16, kIndirect, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(an_empty_chain_is_a_fault) {
  submit({{buffer, 0, kNext, 1}, {buffer, 0, kWrite, 0}});
  check_broke_queue_0_only();
}

// Not even its address is looked at.
BOOST_AUTO_TEST_CASE(empty_descriptors_are_skipped) {
  fe.memory().store(buffer, uint64_t{0x1122334455667788});
  submit(
      {{~0ULL, 0, kNext, 1}, {buffer, 8, kNext, 2}, {0, 0, kNext | kWrite, 3}, {buffer + 64, 16, kWrite, 0}});
  check_used(0, 8);
  BOOST_TEST(fe.memory().load<uint64_t>(buffer + 64) == 0x1122334455667788U);
}

BOOST_AUTO_TEST_CASE(what_is_written_is_what_used_says) {
  const sys::Bytes bytes(100, std::byte{'x'});
  const auto less = fe.request(0, bytes, 40);
  BOOST_TEST(less.len == 40U);
  const auto more = fe.request(0, bytes, 4000);
  BOOST_TEST(more.len == 100U);
  BOOST_TEST((more.bytes == bytes));
  const auto nothing = fe.request(0, bytes, 0);
  BOOST_TEST(nothing.len == 0U);
}

BOOST_AUTO_TEST_CASE(any_split_of_the_bytes_is_the_same_chain) {
  const auto a = sys::as_bytes("the same "), b = sys::as_bytes("bytes"), c = sys::as_bytes(" again");
  const sys::ByteSpan readable[] = {a, b, c};
  const size_t writable[] = {1, 2, 3, 14};
  for (const bool indirect : {false, true}) {
    fe.post(0, readable, writable, indirect);
    BOOST_TEST(sys::as_text(fe.next(0).value().bytes) == "the same bytes again");
  }
}

BOOST_AUTO_TEST_CASE(a_head_published_again_in_flight_is_a_fault) {
  const uint16_t head = fe.post(1, sys::as_bytes("hold"), 16);
  BOOST_TEST(chains_reach(1));
  fe.ring(1).publish(head);
  fe.ring(1).kick();
  BOOST_TEST(support::signalled(fe.ring(1).err_fd(), support::kDeadline));
  BOOST_TEST(daemon.counters().queue_faults == 1U);
  BOOST_TEST(answers(0));
}

BOOST_AUTO_TEST_CASE(a_head_may_be_published_again_once_it_was_used) {
  for (int i = 0; i < 3 * kSize; ++i) BOOST_TEST(answers(0));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(addresses, Raw)

BOOST_AUTO_TEST_CASE(an_address_outside_guest_memory_is_a_fault) {
  submit({{0x1000, 16, 0, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(one_byte_past_the_end_is_a_fault) {
  submit({{kEnd - 15, 16, kWrite, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(one_byte_before_the_start_is_a_fault) {
  submit({{support::GuestMemory::kGpa - 1, 16, 0, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(up_to_the_last_byte_is_legal) {
  submit({{kEnd - 16, 16, kWrite, 0}});
  check_used(0, 0);
}

BOOST_AUTO_TEST_CASE(an_address_that_wraps_is_a_fault) {
  submit({{~0ULL - 7, 16, 0, 0}});
  check_broke_queue_0_only();
}

// The front end's own addresses mean nothing in a descriptor.
BOOST_AUTO_TEST_CASE(a_front_ends_virtual_address_is_a_fault) {
  submit({{fe.memory().uva(buffer), 16, 0, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(more_to_read_than_any_request_is_a_fault) {
  submit({{support::GuestMemory::kGpa, kMaxReadableBytes, kNext, 1}, {buffer, 1, 0, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(as_much_to_read_as_the_greatest_request_is_legal) {
  submit({{support::GuestMemory::kGpa, kMaxReadableBytes - 1, kNext, 1}, {buffer, 1, 0, 0}});
  check_used(0, 0);
}

BOOST_AUTO_TEST_CASE(a_buffer_across_two_regions_is_one_buffer) {
  const Region all = fe.memory().region();
  const uint64_t half = all.size / 2;
  // The halves lie far from each other in the front end and in the daemon, side by side in the guest.
  const Region halves[] = {{all.gpa, half, all.uva, 0}, {all.gpa + half, half, all.uva + (1ULL << 40), half}};
  const int fds[] = {fe.memory().fd(), fe.memory().fd()};
  BOOST_TEST(fe.ack(Request::set_mem_table, FakeFrontEnd::mem_table(halves), fds).value() == 0U);
  const uint64_t seam = all.gpa + half;
  const auto text = sys::as_bytes("on both sides");
  std::copy(text.begin(), text.end(), fe.memory().at(seam - 6, text.size()).begin());
  submit({{seam - 6, 13, kNext, 1}, {seam + 4096 - 6, 13, kWrite, 0}});
  check_used(0, 13);
  BOOST_TEST(sys::as_text(fe.memory().at(seam + 4096 - 6, 13)) == "on both sides");
}

BOOST_AUTO_TEST_CASE(a_buffer_across_a_gap_is_a_fault) {
  const Region all = fe.memory().region();
  const uint64_t half = all.size / 2;
  const Region apart[] = {{all.gpa, half, all.uva, 0}, {all.gpa + half + 4096, half, all.uva + half, half}};
  const int fds[] = {fe.memory().fd(), fe.memory().fd()};
  BOOST_TEST(fe.ack(Request::set_mem_table, FakeFrontEnd::mem_table(apart), fds).value() == 0U);
  submit({{all.gpa + half - 8, 16, kWrite, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_CASE(a_chain_over_4_gib_is_a_fault) {
  Running at({.memory = 128 << 20, .queues = 2});
  const std::vector<Part> parts(33, Part{support::GuestMemory::kGpa, 127 << 20, true});
  at.fe.ring(0).add(parts);
  at.fe.ring(0).kick();
  at.check_broke_queue_0_only();
}

BOOST_FIXTURE_TEST_SUITE(indirect_tables, Raw)

BOOST_AUTO_TEST_CASE(a_table_is_a_chain) {
  fe.memory().store(buffer, uint64_t{42});
  submit({{table({{buffer, 8, kNext, 1}, {buffer + 64, 8, kWrite, 0}}), 32, kIndirect, 0}});
  check_used(0, 8);
  BOOST_TEST(fe.memory().load<uint64_t>(buffer + 64) == 42U);
}

BOOST_AUTO_TEST_CASE(a_table_may_end_a_direct_chain) {
  fe.memory().store(buffer, uint64_t{42});
  submit({{buffer, 8, kNext, 1}, {table({{buffer + 64, 8, kWrite, 0}}), 16, kIndirect, 0}});
  check_used(0, 8);
}

BOOST_AUTO_TEST_CASE(the_tables_own_write_flag_means_nothing) {
  submit({{table({{buffer, 8, 0, 0}}), 16, kIndirect | kWrite, 0}});
  check_used(0, 0);
}

BOOST_AUTO_TEST_CASE(a_table_with_a_next_is_a_fault) {
  submit({{table({{buffer, 8, 0, 0}}), 16, kIndirect | kNext, 1}, {buffer, 8, kWrite, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(a_nested_table_is_a_fault) {
  const uint64_t inner = table({{buffer, 8, 0, 0}});
  submit({{table({{inner, 16, kIndirect, 0}}), 16, kIndirect, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(a_table_of_no_entry_is_a_fault) {
  submit({{table({{buffer, 8, 0, 0}}), 0, kIndirect, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(a_tables_length_is_a_multiple_of_16) {
  submit({{table({{buffer, 8, 0, 0}, {buffer, 8, 0, 0}}), 24, kIndirect, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(a_table_as_long_as_the_ring_is_legal) {
  const std::vector<Part> parts(kSize, Part{buffer, 16, true});
  const uint16_t head = fe.ring(0).add_indirect(parts);
  fe.ring(0).kick();
  check_used(head, 0);
}

BOOST_AUTO_TEST_CASE(a_table_longer_than_the_ring_is_a_fault) {
  fe.ring(0).add_indirect(std::vector<Part>(kSize + 1, Part{buffer, 16, true}));
  fe.ring(0).kick();
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(a_table_of_4_gib_is_a_fault) {
  submit({{support::GuestMemory::kGpa, 0xfffffff0, kIndirect, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(a_table_outside_guest_memory_is_a_fault) {
  submit({{kEnd - 16, 32, kIndirect, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(a_next_beyond_the_table_is_a_fault) {
  submit({{table({{buffer, 8, kNext, 2}, {buffer, 8, 0, 0}}), 32, kIndirect, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(a_loop_in_a_table_is_a_fault) {
  submit({{table({{buffer, 8, kNext, 1}, {buffer, 8, kNext, 0}}), 32, kIndirect, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(unknown_flags_in_a_table_are_a_fault) {
  submit({{table({{buffer, 8, 8, 0}}), 16, kIndirect, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(an_address_in_a_table_outside_guest_memory_is_a_fault) {
  submit({{table({{kEnd, 8, 0, 0}}), 16, kIndirect, 0}});
  check_broke_queue_0_only();
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_CASE(an_indirect_table_that_was_not_negotiated_is_a_fault) {
  Running at({.queues = 2, .features = kFeatureVersion1 | kFeatureProtocol | kFeatureEventIdx});
  at.fe.post(0, {}, std::array<size_t, 1>{16}, true);
  at.fe.ring(0).kick();
  at.check_broke_queue_0_only();
}

BOOST_AUTO_TEST_SUITE(used_ring)

BOOST_AUTO_TEST_CASE(its_index_is_the_devices_own) {
  Running at;
  at.check_served();
  support::FakeRing& ring = at.fe.ring(0);
  at.fe.memory().store<uint16_t>(ring.used() + 2, 0x7777);
  at.fe.post(0, {}, 16);
  at.fe.ring(0).kick();
  BOOST_TEST(at.used_reaches(0, 2));
  BOOST_TEST(at.fe.next(0).has_value());
}

BOOST_AUTO_TEST_CASE(both_indices_wrap_at_16_bits) {
  for (const uint64_t features : {kFeatureVersion1, kFeatureVersion1 | kFeatureEventIdx}) {
    EchoDaemon daemon;
    FakeFrontEnd fe(daemon.path(), {.queues = 1, .features = features | kFeatureProtocol});
    fe.negotiate();
    fe.share_memory();
    fe.ring(0).begin_at(65500);
    fe.set_up_ring(0, 65500);
    fe.enable_ring(0);
    // post() kicks only when asked to, next() waits for an interrupt: a lost wake-up would end in a time-out.
    for (int i = 0; i < 100; ++i) {
      BOOST_TEST(sys::as_text(fe.request(0, sys::as_bytes("word"), 64).bytes) == "word");
    }
    BOOST_TEST(fe.ring(0).used_idx() == static_cast<uint16_t>(65600));
  }
}

BOOST_AUTO_TEST_CASE(no_interrupt_is_sent_to_a_driver_that_wants_none) {
  Running at({.queues = 2, .features = kFeatureVersion1 | kFeatureProtocol});
  at.check_served();
  at.fe.memory().store<uint16_t>(at.fe.ring(0).avail(), 1);  // NO_INTERRUPT
  at.silence(0);
  at.fe.post(0, {}, 16);
  at.fe.ring(0).kick();
  BOOST_TEST(at.used_reaches(0, 2));
  BOOST_TEST(!support::signalled(at.fe.ring(0).call_fd(), kQuiet));
}

BOOST_AUTO_TEST_CASE(an_interrupt_comes_at_the_event_index_and_not_before) {
  Running at;
  at.check_served();
  support::FakeRing& ring = at.fe.ring(0);
  at.silence(0);
  ring.set_used_event(static_cast<uint16_t>(ring.used_idx() + 2));
  for (int i = 0; i < 2; ++i) {
    at.fe.post(0, {}, 16);
    ring.kick();
    BOOST_TEST(at.used_reaches(0, static_cast<uint16_t>(2 + i)));
    BOOST_TEST(ring.take_used().has_value());
  }
  BOOST_TEST(!support::signalled(ring.call_fd(), kQuiet));
  at.fe.post(0, {}, 16);
  ring.kick();
  BOOST_TEST(support::signalled(ring.call_fd(), support::kDeadline));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(fair_shares)

BOOST_AUTO_TEST_CASE(a_full_ring_takes_several_rounds) {
  Running at({.queues = 2, .queue_size = 256});
  at.check_served();
  const unsigned before = at.daemon.inside([](Backend&, EchoDevice& device) { return device.rounds; });
  const std::vector<Part> part(1, Part{at.fe.memory().take(16), 16, true});
  for (int i = 0; i < 256; ++i) at.fe.ring(0).add(part);
  at.fe.ring(0).kick();
  for (int i = 0; i < 256; ++i) BOOST_REQUIRE(at.fe.ring(0).wait_used().has_value());
  const unsigned after = at.daemon.inside([](Backend&, EchoDevice& device) { return device.rounds; });
  BOOST_TEST(after - before >= 256 / kRoundChains);
}

BOOST_AUTO_TEST_CASE(a_guest_that_never_stops_leaves_the_other_queue_its_turn) {
  Running at({.queues = 2, .queue_size = 256});
  std::atomic<bool> enough{false};
  const std::vector<Part> part(1, Part{at.fe.memory().take(16), 16, true});
  support::FakeRing& flooded = at.fe.ring(0);
  std::thread flood([&] {
    for (int i = 0; i < 256; ++i) flooded.add(part);
    flooded.kick();
    while (!enough) {
      while (flooded.take_used()) flooded.add(part);
      if (flooded.kick_wanted()) flooded.kick();
    }
  });
  for (int i = 0; i < 100; ++i) BOOST_TEST(at.answers(1));
  enough = true;
  flood.join();
  BOOST_TEST(at.daemon.counters().queue_faults == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(under_the_readers_eyes)

// Single fetch: a descriptor is judged and used as one copy. The flipping values are legal and far out of
// bounds; the daemon takes one or the other, and either serves the chain or breaks the queue. (ASan tells the
// third outcome.)
BOOST_AUTO_TEST_CASE(descriptors_that_change_while_they_are_read) {
  for (const bool indirect : {false, true}) {
    Raw at;
    const uint64_t cell = indirect ? at.table({{at.buffer, 64, kWrite, 0}}) : at.fe.ring(0).desc();
    const Desc head = indirect ? Desc{cell, 16, kIndirect, 0} : Desc{at.buffer, 64, kWrite, 0};
    at.fe.ring(0).write_desc(0, head);
    std::atomic<bool> enough{false};
    std::thread flipper([&] {
      auto* addr = reinterpret_cast<uint64_t*>(at.fe.memory().at(cell, 16).data());
      const uint64_t good[] = {addr[0], addr[1]};
      while (!enough) {
        std::atomic_ref(addr[0]).store(~0ULL - 63);
        std::atomic_ref(addr[1]).store(good[1] | 0xffff0000U);
        std::atomic_ref(addr[0]).store(good[0]);
        std::atomic_ref(addr[1]).store(good[1]);
      }
    });
    bool broke = false;
    for (int i = 0; i < 2000 && !broke; ++i) {
      at.fe.ring(0).publish(0);
      at.fe.ring(0).kick();
      while (!at.fe.ring(0).wait_used(support::Deadline(20)) && !broke) {
        broke = support::signalled(at.fe.ring(0).err_fd(), support::Deadline(0));
      }
    }
    enough = true;
    flipper.join();
    BOOST_TEST(at.answers(1));
    BOOST_TEST(at.daemon.counters().queue_faults == (broke ? 1U : 0U));
  }
}

BOOST_AUTO_TEST_CASE(a_breach_that_the_device_finds_breaks_its_queue_only) {
  Running at;
  at.fe.post(0, sys::as_bytes("fault"), 64);
  at.check_broke_queue_0_only();
}

BOOST_AUTO_TEST_CASE(a_broken_queue_serves_again_after_a_restart) {
  Running at;
  at.fe.post(0, sys::as_bytes("fault"), 64);
  BOOST_TEST(support::signalled(at.fe.ring(0).err_fd(), support::kDeadline));
  at.fe.send(Request::get_vring_base, FakeFrontEnd::ring_state(0, 0));
  const auto state = sys::load_le<RingState>(at.fe.receive().value().payload.data());
  at.fe.set_up_ring(0, static_cast<uint16_t>(state.value));
  BOOST_TEST(at.answers(0));
  BOOST_TEST(at.daemon.counters().queue_faults == 1U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::vhost
