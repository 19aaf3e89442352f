// docs/hostile-guest, section 1, rules 5, 6 and 10: the memory table.
#include <fcntl.h>
#include <sys/mman.h>

#include "tests/guest/vhost/running.h"

namespace turnbox::vhost {
namespace {

constexpr uint64_t kMiB = 1 << 20;

struct Table {
  std::vector<Region> regions;
  std::vector<int> fds;
};

// The table is refused, and the ring goes on in the memory it had.
void check_refused(const Table& table) {
  Running at;
  BOOST_TEST(at.fe.ack(Request::set_mem_table, FakeFrontEnd::mem_table(table.regions), table.fds).value() !=
             0U);
  BOOST_TEST(at.daemon.counters().messages_refused == 1U);
  at.check_served();
}

struct Memory1 {
  support::GuestMemory memory{kMiB};
  Table with(const Region& region) { return {{region}, {memory.fd()}}; }
  Table with(const Region& a, const Region& b) { return {{a, b}, {memory.fd(), memory.fd()}}; }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(memory_table, Memory1)

BOOST_AUTO_TEST_CASE(no_region_or_nine_are_refused) {
  check_refused({{}, {}});
  Table nine;
  for (uint64_t i = 0; i < 9; ++i) {
    nine.regions.push_back({i * kMiB, 4096, i * kMiB, 0});
    if (i < 8) nine.fds.push_back(memory.fd());
  }
  check_refused(nine);
}

BOOST_AUTO_TEST_CASE(eight_regions_are_taken) {
  Table eight;
  for (uint64_t i = 0; i < 8; ++i) {
    eight.regions.push_back({i * kMiB, 4096, i * kMiB, i * 4096});
    eight.fds.push_back(memory.fd());
  }
  EchoDaemon daemon;
  FakeFrontEnd fe(daemon.path());
  fe.negotiate();
  BOOST_TEST(fe.ack(Request::set_mem_table, FakeFrontEnd::mem_table(eight.regions), eight.fds).value() == 0U);
}

BOOST_AUTO_TEST_CASE(an_empty_region_is_refused) {
  check_refused(with({0, 0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(a_region_that_wraps_is_refused) {
  check_refused(with({~0ULL - 4095, 8192, 0, 0}));
  check_refused(with({0, 8192, ~0ULL - 4095, 0}));
  check_refused(with({0, 8192, 0, ~0ULL - 4095}));
}

BOOST_AUTO_TEST_CASE(regions_that_overlap_are_refused) {
  check_refused(with({0, 8192, 0, 0}, {4096, 8192, kMiB, 0}));
  check_refused(with({0, 8192, 0, 0}, {kMiB, 8192, 8191, 0}));
  check_refused(with({0, 8192, 0, 0}, {0, 8192, 0, 0}));
}

BOOST_AUTO_TEST_CASE(a_region_past_the_end_of_its_file_is_refused) {
  check_refused(with({0, kMiB + 1, 0, 0}));
  check_refused(with({0, kMiB, 0, 1}));
  check_refused(with({0, 4096, 0, 1ULL << 62}));
}

BOOST_AUTO_TEST_CASE(a_file_that_can_shrink_is_refused) {
  support::GuestMemory loose(kMiB, F_SEAL_GROW);
  check_refused({{{0, kMiB, 0, 0}}, {loose.fd()}});
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_written_is_refused) {
  auto sealed = sys::memfd_with("sealed", sys::Bytes(kMiB));
  BOOST_REQUIRE(sealed.has_value());
  check_refused({{{0, kMiB, 0, 0}}, {sealed->get()}});
}

BOOST_AUTO_TEST_CASE(what_is_no_memory_file_is_refused) {
  const sys::Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const sys::Fd file(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  BOOST_REQUIRE(::ftruncate(file.get(), kMiB) == 0);
  check_refused({{{0, kMiB, 0, 0}}, {null.get()}});
  check_refused({{{0, kMiB, 0, 0}}, {file.get()}});
}

// Huge pages raise SIGBUS when their pool is empty, seals or not.
BOOST_AUTO_TEST_CASE(huge_pages_are_refused) {
  const sys::Fd huge(::memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (!huge) {
    BOOST_TEST_MESSAGE("this kernel has no huge pages");
    return;
  }
  BOOST_REQUIRE(::ftruncate(huge.get(), 4 * kMiB) == 0);
  BOOST_REQUIRE(::fcntl(huge.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  check_refused({{{0, 2 * kMiB, 0, 0}}, {huge.get()}});
}

BOOST_AUTO_TEST_CASE(a_new_table_under_running_rings_moves_them_at_once) {
  Running at;
  for (int i = 0; i < 8; ++i) at.fe.post(1, sys::as_bytes("hold"), 64);
  BOOST_TEST(at.chains_reach(8));
  // The same memory in two halves, so every pointer of the daemon has to be made anew.
  const Region all = at.fe.memory().region();
  const uint64_t half = all.size / 2;
  const Region halves[] = {{all.gpa, half, all.uva, 0}, {all.gpa + half, half, all.uva + half, half}};
  const int fds[] = {at.fe.memory().fd(), at.fe.memory().fd()};
  BOOST_TEST(at.fe.ack(Request::set_mem_table, FakeFrontEnd::mem_table(halves), fds).value() == 0U);
  for (int i = 0; i < 8; ++i)
    BOOST_TEST(at.fe.next(1).value().len == 0U);  // the device let go of what it held
  at.check_served();
  for (int i = 0; i < 4; ++i) {
    BOOST_TEST(at.fe.ack(Request::set_mem_table, FakeFrontEnd::mem_table(halves), fds).value() == 0U);
    at.check_served();
  }
  BOOST_TEST(at.daemon.counters().queue_faults == 0U);
}

BOOST_AUTO_TEST_CASE(a_new_table_is_the_only_memory_that_is_touched) {
  Running at;
  at.check_served();
  at.silence(0);
  // The copy holds the rings as they stand; the old file may do what it likes from now on.
  const auto old = at.fe.memory().at(support::GuestMemory::kGpa, at.fe.memory().size());
  support::GuestMemory copy(old.size());
  const auto fresh = copy.at(support::GuestMemory::kGpa, copy.size());
  std::copy(old.begin(), old.end(), fresh.begin());
  const sys::Bytes before(old.begin(), old.end());
  const Region region = copy.region();
  const int fd = copy.fd();
  BOOST_TEST(
      at.fe.ack(Request::set_mem_table, FakeFrontEnd::mem_table(std::span(&region, 1)), std::span(&fd, 1))
          .value() == 0U);
  // A chain of one writable descriptor in the copy: its used entry appears there and nowhere else.
  const support::FakeRing& ring = at.fe.ring(0);
  const uint16_t next = ring.avail_idx();
  copy.store(ring.desc(), support::Desc{support::GuestMemory::kGpa, 16, support::kWrite, 0});
  copy.store<uint16_t>(ring.avail() + 4 + 2 * (next & 63U), 0);
  copy.store(ring.avail() + 2, static_cast<uint16_t>(next + 1));
  copy.store(ring.avail() + 4 + 2 * 64, next);  // used_event: tell me about the next one
  at.fe.ring(0).kick();
  BOOST_TEST(support::signalled(ring.call_fd(), support::kDeadline));
  BOOST_TEST(copy.load<uint16_t>(ring.used() + 2) == static_cast<uint16_t>(next + 1));
  BOOST_TEST((sys::Bytes(old.begin(), old.end()) == before));
}

BOOST_AUTO_TEST_CASE(a_new_table_without_the_rings_stops_them_and_says_so) {
  Running at;
  const Region elsewhere = memory.region();
  const Region far{elsewhere.gpa, elsewhere.size, 0x1000, 0};
  const int fd = memory.fd();
  BOOST_TEST(at.fe.ack(Request::set_mem_table, FakeFrontEnd::mem_table(std::span(&far, 1)), std::span(&fd, 1))
                 .value() != 0U);
  at.fe.post(0, sys::as_bytes("word"), 64);
  at.fe.ring(0).kick();
  BOOST_TEST(!at.fe.next(0, support::kQuiet));
  // The old table again, and the rings go on where they were.
  at.fe.share_memory();
  BOOST_TEST(sys::as_text(at.fe.next(0).value().bytes) == "word");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::vhost
