#include "vmm/vhost/vring.h"

#include <boost/test/unit_test.hpp>
#include <thread>

#include "tests/support/fake_ring.h"

namespace turnbox::vhost {
namespace {

using support::kWrite;
using support::Part;

constexpr uint16_t kSize = 8;

// A ring and its driver in one thread, without a socket.
struct Driven {
  explicit Driven(uint64_t features = kFeatureEventIdx | kFeatureIndirect)
      : driver(guest, kSize, (features & kFeatureEventIdx) != 0), features_(features) {
    const Region region = guest.region();
    std::vector<sys::Fd> fds;
    fds.push_back(std::move(*sys::duplicate(guest.fd())));
    auto mapped = Memory::map(std::span(&region, 1), fds);
    BOOST_REQUIRE(mapped.has_value());
    memory = std::move(*mapped);
    ring.set_call(std::move(*sys::duplicate(driver.call_fd())));
    ring.set_err(std::move(*sys::duplicate(driver.err_fd())));
  }
  void start(uint16_t base = 0) {
    driver.begin_at(base);
    ring.set_base(base);
    run();
  }
  void run() {
    const auto at = [&](uint64_t gpa, size_t size) { return memory.at_uva(guest.uva(gpa), size); };
    ring.start(memory, {at(driver.desc(), 16 * kSize), at(driver.avail(), 6), at(driver.used(), 6), kSize},
               features_);
  }
  void add() {
    const Part part{buffer, 16, true};
    driver.add(std::span(&part, 1));
  }
  bool interrupted() { return support::signalled(driver.call_fd(), support::Deadline(0)); }
  bool serve_one() {
    auto chain = ring.pop();
    if (chain) ring.push(std::move(*chain), 4);
    return chain.has_value();
  }

  support::GuestMemory guest{1 << 20};
  support::FakeRing driver;
  uint64_t features_;
  uint64_t buffer = guest.take(4096);
  Memory memory;
  Counters counters;
  std::string told;
  Vring ring{counters, [this](const char* rule) { told = rule; }};
};

struct DrivenWithFlags : Driven {
  DrivenWithFlags() : Driven(0) {}
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(split_ring, Driven)

BOOST_AUTO_TEST_CASE(a_stopped_ring_gives_nothing) {
  BOOST_TEST(!ring.pop().has_value());
  start();
  add();
  ring.stop();
  BOOST_TEST(!ring.pop().has_value());
  BOOST_TEST(!ring.running());
}

BOOST_AUTO_TEST_CASE(a_chain_goes_round) {
  start();
  add();
  BOOST_TEST(serve_one());
  BOOST_TEST(!serve_one());
  const auto used = driver.take_used();
  BOOST_REQUIRE(used.has_value());
  BOOST_TEST(used->len == 4U);
  BOOST_TEST(counters.chains == 1U);
}

BOOST_AUTO_TEST_CASE(chains_may_be_pushed_in_another_order) {
  start();
  for (int i = 0; i < 3; ++i) add();
  std::vector<Chain> held;
  while (auto chain = ring.pop()) held.push_back(std::move(*chain));
  std::vector<uint32_t> order;
  while (!held.empty()) {
    order.push_back(held.back().head());
    ring.push(std::move(held.back()), 1);
    held.pop_back();
  }
  for (const uint32_t head : order) BOOST_TEST(driver.take_used().value().head == head);
}

BOOST_AUTO_TEST_CASE(a_chain_of_an_earlier_run_is_ignored) {
  start();
  add();
  auto old = ring.pop();
  BOOST_REQUIRE(old.has_value());
  ring.stop();
  run();
  ring.push(std::move(*old), 4);
  BOOST_TEST(driver.used_idx() == 0U);
}

BOOST_AUTO_TEST_CASE(indices_survive_a_pause) {
  start();
  for (int i = 0; i < 3; ++i) {
    add();
    BOOST_TEST(serve_one());
    ring.stop();
    guest.store<uint16_t>(driver.used() + 2, 999);  // ours is the one that counts
    run();
  }
  BOOST_TEST(ring.next_avail() == 3U);
  add();
  BOOST_TEST(serve_one());
  BOOST_TEST(driver.used_idx() == 4U);
}

BOOST_AUTO_TEST_CASE(a_fault_is_told_once_and_ends_all) {
  start();
  add();
  auto held = ring.pop();
  driver.publish(200);
  BOOST_TEST(!ring.pop().has_value());
  BOOST_TEST(ring.broken());
  BOOST_TEST(told == ring.fault_rule());
  BOOST_TEST(support::signalled(driver.err_fd(), support::Deadline(0)));
  ring.fault("another");
  BOOST_TEST(counters.queue_faults == 1U);
  ring.push(std::move(*held), 4);
  BOOST_TEST(driver.used_idx() == 0U);
  BOOST_TEST(!ring.pop().has_value());
}

BOOST_AUTO_TEST_CASE(a_new_base_heals) {
  start();
  ring.fault("rule");
  ring.stop();
  start(driver.avail_idx());
  add();
  BOOST_TEST(serve_one());
}

BOOST_AUTO_TEST_CASE(a_round_ends_after_its_share_of_chains) {
  start();
  ring.begin_round();
  unsigned served = 0;
  while (!ring.round_over()) {
    add();
    BOOST_REQUIRE(serve_one());
    BOOST_REQUIRE(driver.take_used().has_value());
    ++served;
  }
  BOOST_TEST(served == kRoundChains);
  BOOST_TEST(ring.end_round());
  BOOST_TEST(!ring.round_over());
  ring.begin_round();
  BOOST_TEST(!ring.end_round());
}

BOOST_AUTO_TEST_CASE(a_round_ends_after_its_share_of_bytes) {
  start();
  const Part most{guest.kGpa, 1 << 20, true};
  ring.begin_round();
  for (int i = 0; i < 4; ++i) {
    BOOST_TEST(!ring.round_over());
    driver.add(std::span(&most, 1));
    BOOST_REQUIRE(serve_one());
  }
  BOOST_TEST(ring.round_over());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(event_index, Driven)

// The device's question (kick me at) and the driver's (interrupt me at), stepped over the 16-bit edge one by
// one.
BOOST_AUTO_TEST_CASE(it_wraps_at_16_bits_in_both_directions) {
  start(65530);
  BOOST_TEST(!ring.pop().has_value());
  for (unsigned i = 0; i < 20; ++i) {
    const auto index = static_cast<uint16_t>(65530 + i);
    BOOST_TEST(driver.avail_event() == index);
    driver.set_used_event(index);
    add();
    BOOST_TEST(driver.kick_wanted());
    driver.kick();
    ring.begin_round();
    BOOST_TEST(serve_one());
    BOOST_TEST(!serve_one());
    ring.end_round();
    BOOST_TEST(interrupted());
    BOOST_TEST(driver.take_used().has_value());
  }
}

BOOST_AUTO_TEST_CASE(an_event_inside_a_batch_over_the_edge_interrupts_once) {
  start(65533);
  add(), serve_one(), ring.flush(), interrupted(), driver.take_used();  // the first one always does
  for (int event = 0; event < 4; ++event) {
    const uint16_t from = driver.used_idx();
    driver.set_used_event(static_cast<uint16_t>(from + event));
    for (int i = 0; i < 4; ++i) add();
    while (serve_one()) continue;
    ring.flush();
    BOOST_TEST(interrupted());
    ring.flush();
    BOOST_TEST(!interrupted());
    while (driver.take_used()) continue;
  }
}

BOOST_AUTO_TEST_CASE(an_event_outside_the_batch_does_not_interrupt) {
  start(65533);
  add(), serve_one(), ring.flush(), interrupted(), driver.take_used();
  const uint16_t from = driver.used_idx();
  for (const int event : {-1, 4, 1000}) {
    driver.begin_at(from);
    ring.stop();
    ring.set_base(from);
    run();
    add(), serve_one(), ring.flush(), interrupted(), driver.take_used();
    driver.set_used_event(static_cast<uint16_t>(driver.used_idx() + event));
    for (int i = 0; i < 4; ++i) add();
    while (serve_one()) continue;
    ring.flush();
    BOOST_TEST(!interrupted());
    while (driver.take_used()) continue;
  }
}

BOOST_AUTO_TEST_CASE(a_busy_device_is_not_kicked) {
  start();
  BOOST_TEST(!ring.pop().has_value());
  add();
  BOOST_TEST(driver.kick_wanted());
  driver.kick();
  add();
  BOOST_TEST(!driver.kick_wanted());  // it comes by itself
  while (serve_one()) continue;
  add();
  BOOST_TEST(driver.kick_wanted());
}

BOOST_AUTO_TEST_CASE(pushes_without_end_before_a_flush_still_interrupt) {
  start();
  add(), serve_one(), ring.flush(), interrupted(), driver.take_used();
  driver.set_used_event(0x9000);
  for (int i = 0; i < 0x10000; ++i) {
    add();
    serve_one();
    driver.take_used();
  }
  ring.flush();
  BOOST_TEST(interrupted());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(flags_instead_of_events, DrivenWithFlags)

BOOST_AUTO_TEST_CASE(kicks_are_wanted_only_from_an_empty_ring_on) {
  start();
  BOOST_TEST(!driver.kick_wanted());  // the start itself looks into the ring
  BOOST_TEST(!ring.pop().has_value());
  BOOST_TEST(driver.kick_wanted());
  add();
  BOOST_TEST(serve_one());
  add();
  BOOST_TEST(serve_one());
  BOOST_TEST(!serve_one());
  BOOST_TEST(driver.kick_wanted());
}

BOOST_AUTO_TEST_CASE(interrupts_can_be_refused) {
  start();
  for (const bool wanted : {true, false, true}) {
    guest.store<uint16_t>(driver.avail(), wanted ? 0 : 1);
    add();
    BOOST_TEST(serve_one());
    ring.flush();
    BOOST_TEST(interrupted() == wanted);
    driver.take_used();
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(watched_ring, Driven)

BOOST_AUTO_TEST_CASE(the_guest_is_told_of_what_is_done_before_the_ring_is_watched) {
  ring.set_patience(std::chrono::seconds(10));
  start();
  driver.set_used_event(0);
  add();
  ring.begin_round();
  ring.push(std::move(*ring.pop()), 0);
  bool heard = false;
  std::thread guest_thread([&] {
    heard = support::signalled(driver.call_fd(), support::kDeadline);
    add();
  });
  const auto next = ring.pop();  // sees what the other thread adds once it was told
  guest_thread.join();
  BOOST_TEST(heard);
  BOOST_TEST(next.has_value());
}

BOOST_AUTO_TEST_CASE(a_watched_ring_asks_for_a_kick_when_nothing_comes) {
  ring.set_patience(std::chrono::microseconds(5));
  start();
  ring.begin_round();
  BOOST_TEST(!ring.pop().has_value());
  add();
  BOOST_TEST(driver.kick_wanted());
}

BOOST_AUTO_TEST_CASE(an_index_that_runs_ahead_while_the_ring_is_watched_breaks_it) {
  ring.set_patience(std::chrono::seconds(10));
  start();
  ring.begin_round();
  std::thread guest_thread([this] { driver.set_avail_idx(kSize + 1); });
  BOOST_TEST(!ring.pop().has_value());
  guest_thread.join();
  BOOST_TEST(ring.broken());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::vhost
