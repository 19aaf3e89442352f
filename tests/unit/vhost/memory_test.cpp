#include "vmm/vhost/memory.h"

#include <boost/test/unit_test.hpp>

#include "tests/support/guest_memory.h"

namespace turnbox::vhost {
namespace {

constexpr uint64_t kPage = 4096;

// Two regions side by side in the guest, swapped in the file, apart in the front end.
struct TwoRegions {
  TwoRegions() {
    auto mapped = map({{kPage, kPage, 0x100000, kPage}, {2 * kPage, kPage, 0x200000, 0}});
    BOOST_REQUIRE(mapped.has_value());
    memory = std::move(*mapped);
  }
  sys::Result<Memory> map(std::vector<Region> regions) {
    std::vector<sys::Fd> fds;
    for (size_t i = 0; i < regions.size(); ++i) fds.push_back(std::move(*sys::duplicate(file.fd())));
    return Memory::map(regions, fds);
  }
  bool add(const Region& region) { return memory.add(region, *sys::duplicate(file.fd())).has_value(); }
  std::vector<std::span<std::byte>> spans(uint64_t gpa, uint64_t size) {
    std::vector<std::span<std::byte>> into;
    if (!memory.spans(gpa, size, into)) BOOST_TEST(into.empty());
    return into;
  }
  support::GuestMemory file{2 * kPage};
  Memory memory;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(guest_memory, TwoRegions)

BOOST_AUTO_TEST_CASE(a_range_in_one_region_is_one_span_of_the_file) {
  file.store<uint32_t>(file.kGpa + kPage + 8, 0xabcd);
  const auto found = spans(kPage + 8, 4);
  BOOST_REQUIRE(found.size() == 1U);
  BOOST_TEST(sys::load_le<uint32_t>(found[0].data()) == 0xabcdU);
}

BOOST_AUTO_TEST_CASE(a_range_across_regions_is_split) {
  const auto found = spans(2 * kPage - 3, 10);
  BOOST_REQUIRE(found.size() == 2U);
  BOOST_TEST(found[0].size() == 3U);
  BOOST_TEST(found[1].size() == 7U);
  BOOST_TEST(found[1].data() == memory.at_uva(0x200000, 7));
}

BOOST_AUTO_TEST_CASE(what_is_not_memory_gives_nothing) {
  BOOST_TEST(spans(0, 1).empty());
  BOOST_TEST(spans(kPage - 1, 2).empty());
  BOOST_TEST(spans(3 * kPage - 1, 2).empty());
  BOOST_TEST(spans(kPage, 2 * kPage + 1).empty());
  BOOST_TEST(spans(~0ULL, 1).empty());
  BOOST_TEST(spans(kPage, ~0ULL).empty());
  BOOST_TEST(spans(~0ULL - 1, 4).empty());
  BOOST_TEST(spans(kPage, 2 * kPage).size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_front_ends_address_stays_in_its_region) {
  BOOST_TEST(memory.at_uva(0x100000, kPage) != nullptr);
  BOOST_TEST(memory.at_uva(0x100000 + kPage - 1, 1) == memory.at_uva(0x100000, 1) + kPage - 1);
  BOOST_TEST(memory.at_uva(0x100000, kPage + 1) == nullptr);
  BOOST_TEST(memory.at_uva(0x100000 - 1, 1) == nullptr);
  BOOST_TEST(memory.at_uva(0x100000 + kPage, 1) == nullptr);
  BOOST_TEST(memory.at_uva(0x100001, ~0ULL) == nullptr);
  BOOST_TEST(memory.at_uva(kPage, 1) == nullptr);  // guest-physical
}

BOOST_AUTO_TEST_CASE(an_offset_inside_a_page_is_kept) {
  auto odd = map({{0, 100, 0x100000, kPage + 24}});
  BOOST_REQUIRE(odd.has_value());
  file.store<uint32_t>(file.kGpa + kPage + 24, 0x77);
  BOOST_TEST(sys::load_le<uint32_t>(odd->at_uva(0x100000, 4)) == 0x77U);
}

BOOST_AUTO_TEST_CASE(regions_that_touch_do_not_overlap) {
  BOOST_TEST(map({{0, kPage, 0, 0}, {kPage, kPage, kPage, 0}}).has_value());
  BOOST_TEST(!map({{0, kPage + 1, 0, 0}, {kPage, kPage, 2 * kPage, 0}}).has_value());
}

BOOST_AUTO_TEST_CASE(a_region_more_leaves_those_that_are_there_where_they_are) {
  const std::byte* before = memory.at_uva(0x100000, kPage);
  BOOST_TEST(add({16 * kPage, kPage, 0x300000, 0}));
  BOOST_TEST(memory.at_uva(0x100000, kPage) == before);
  BOOST_TEST(memory.at_uva(0x300000, kPage) != nullptr);
  BOOST_TEST(spans(16 * kPage, kPage).size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_region_more_breaks_no_rule) {
  BOOST_TEST(!add({0, 0, 0, 0}));
  BOOST_TEST(!add({2 * kPage, kPage, 0x300000, 0}));            // the guest's addresses overlap
  BOOST_TEST(!add({16 * kPage, kPage, 0x200fff, 0}));           // the front end's do
  BOOST_TEST(!add({~0ULL - kPage + 2, kPage, 0x300000, 0}));    // wraps
  BOOST_TEST(!add({16 * kPage, kPage, ~0ULL - kPage + 2, 0}));  // wraps
  BOOST_TEST(!add({16 * kPage, kPage, 0x300000, 2 * kPage}));   // behind the file
  BOOST_TEST(!memory.has({16 * kPage, kPage, 0x300000, 0}));
}

BOOST_AUTO_TEST_CASE(there_are_so_many_regions_and_no_more) {
  for (uint64_t i = 2; i < kMaxMemSlots; ++i)
    BOOST_TEST(add({(16 + i) * kPage, kPage, 0x300000 + i * kPage, 0}));
  BOOST_TEST(!add({100 * kPage, kPage, 0x900000, 0}));
  BOOST_TEST(memory.remove({kPage, kPage, 0x100000, 0}).has_value());
  BOOST_TEST(add({100 * kPage, kPage, 0x900000, 0}));
}

BOOST_AUTO_TEST_CASE(a_region_is_removed_by_its_addresses_and_size) {
  BOOST_TEST(!memory.remove({kPage, kPage, 0x200000, kPage}).has_value());
  BOOST_TEST(!memory.remove({kPage, kPage - 1, 0x100000, kPage}).has_value());
  BOOST_TEST(!memory.remove({kPage, 2 * kPage, 0x100000, kPage}).has_value());
  BOOST_TEST(memory.remove({kPage, kPage, 0x100000, 12345}).has_value());
  BOOST_TEST(memory.at_uva(0x100000, 1) == nullptr);
  BOOST_TEST(spans(kPage, 1).empty());
  BOOST_TEST(spans(2 * kPage, kPage).size() == 1U);
  BOOST_TEST(!memory.remove({kPage, kPage, 0x100000, kPage}).has_value());
}

BOOST_AUTO_TEST_CASE(no_memory_translates_nothing) {
  const Memory none;
  std::vector<std::span<std::byte>> into;
  BOOST_TEST(none.empty());
  BOOST_TEST(!none.spans(0, 1, into));
  BOOST_TEST(none.at_uva(0, 0) == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::vhost
