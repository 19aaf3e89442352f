#include "tests/unit/tree/fixture.h"

namespace turnbox::fs {
namespace {

constexpr uint32_t kKeep = 1, kPunch = 2 | 1, kZero = 16;
constexpr size_t kPageBytes = 4096;

struct Ranges : Fixture {
  using Fixture::Fixture;
  int allocate(Ino ino, uint64_t offset, uint64_t size, uint32_t mode = 0) {
    return error_of(tree.allocate(ino, offset, size, mode, guest));
  }
  int64_t copy(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset, uint64_t size) {
    const auto done = tree.copy_range(from, from_offset, to, to_offset, size, false, guest);
    return done ? static_cast<int64_t>(*done) : -error_of(done);
  }
  uint64_t blocks(Ino ino) { return tree.getattr(ino).value().blocks; }
  uint64_t size(Ino ino) { return tree.getattr(ino).value().size; }
  uint64_t pages() { return tree.usage().bytes / kPageBytes; }
  int64_t seek(Ino ino, uint64_t offset, int whence) {
    const auto at = tree.lseek(ino, offset, whence);
    return at ? static_cast<int64_t>(*at) : -error_of(at);
  }
};

std::string text(size_t size, unsigned salt = 0) {
  std::string all(size, '\0');
  for (size_t i = 0; i < size; ++i) all[i] = static_cast<char>('a' + (i / 7 + salt + i % 13) % 26);
  return all;
}

BOOST_FIXTURE_TEST_SUITE(ranges, Ranges)

BOOST_AUTO_TEST_CASE(allocate_counts_reads_as_zeros_and_stays_a_hole) {
  const Ino a = file(root, "a");
  BOOST_TEST(allocate(a, 0, 100'000) == 0);
  BOOST_TEST(size(a) == 100'000u);
  BOOST_TEST(blocks(a) == 25u * 8);
  BOOST_TEST(pages() == 25u);
  BOOST_TEST((read(tree, a) == std::string(100'000, '\0')));
  BOOST_TEST(seek(a, 0, 3) == -ENXIO);
  BOOST_TEST(seek(a, 0, 4) == 0);
  write(a, 50'000, "here");
  BOOST_TEST(blocks(a) == 25u * 8);
  BOOST_TEST(seek(a, 0, 3) == 49152);
  BOOST_TEST(seek(a, 49152, 4) == 53248);
  BOOST_TEST((read(tree, a, 49990, 20) == std::string(10, '\0') + "here" + std::string(6, '\0')));
}

BOOST_AUTO_TEST_CASE(one_page_alone) {
  const Ino a = file(root, "a");
  BOOST_TEST(allocate(a, 10, 20) == 0);
  BOOST_TEST(size(a) == 30u);
  BOOST_TEST(blocks(a) == 8u);
  write(a, 5, "x");
  BOOST_TEST((read(tree, a) == std::string(5, '\0') + "x" + std::string(24, '\0')));
  BOOST_TEST(error_of(resize(a, 0)) == 0);
  BOOST_TEST(pages() == 0u);
}

BOOST_AUTO_TEST_CASE(keep_size_holds_pages_past_the_end_until_the_size_is_set) {
  const Ino a = file(root, "a", "abc");
  BOOST_TEST(allocate(a, 0, 3 * kPageBytes, kKeep) == 0);
  BOOST_TEST(size(a) == 3u);
  BOOST_TEST(blocks(a) == 3u * 8);
  BOOST_TEST(read(tree, a) == "abc");
  BOOST_TEST(error_of(resize(a, 3)) == 0);
  BOOST_TEST(blocks(a) == 8u);
  BOOST_TEST(pages() == 1u);
  BOOST_TEST(allocate(a, 0, 3 * kPageBytes, kKeep) == 0);
  BOOST_TEST(error_of(resize(a, 9000)) == 0);
  BOOST_TEST((read(tree, a) == "abc" + std::string(8997, '\0')));
  BOOST_TEST(blocks(a) == 3u * 8);
}

BOOST_AUTO_TEST_CASE(punched_bytes_are_zeros_and_whole_pages_are_freed) {
  const std::string all = text(10 * kPageBytes);
  const Ino a = file(root, "a", all);
  BOOST_TEST(allocate(a, 100, 3 * kPageBytes, kPunch) == 0);
  std::string expected = all;
  std::fill_n(expected.begin() + 100, 3 * kPageBytes, '\0');
  BOOST_TEST((read(tree, a) == expected));
  BOOST_TEST(blocks(a) == 8u * 8);
  BOOST_TEST(seek(a, 100, 4) == static_cast<int64_t>(kPageBytes));
  BOOST_TEST(allocate(a, 5 * kPageBytes + 7, 9, kPunch) == 0);
  std::fill_n(expected.begin() + 5 * kPageBytes + 7, 9, '\0');
  BOOST_TEST((read(tree, a) == expected));
  BOOST_TEST(allocate(a, 0, uint64_t{1} << 40, kPunch) == 0);
  BOOST_TEST(size(a) == all.size());
  BOOST_TEST(blocks(a) == 0u);
  BOOST_TEST((read(tree, a) == std::string(all.size(), '\0')));
}

BOOST_AUTO_TEST_CASE(zero_range_is_allocated_and_a_hole) {
  const std::string all = text(4 * kPageBytes);
  const Ino a = file(root, "a", all);
  BOOST_TEST(allocate(a, kPageBytes, 5 * kPageBytes, kZero) == 0);
  BOOST_TEST(size(a) == 6 * kPageBytes);
  BOOST_TEST(blocks(a) == 6u * 8);
  BOOST_TEST((read(tree, a) == all.substr(0, kPageBytes) + std::string(5 * kPageBytes, '\0')));
  BOOST_TEST(seek(a, 0, 4) == static_cast<int64_t>(kPageBytes));
  BOOST_TEST(allocate(a, 0, 9 * kPageBytes, kZero | kKeep) == 0);
  BOOST_TEST(size(a) == 6 * kPageBytes);
  BOOST_TEST(blocks(a) == 9u * 8);
}

BOOST_AUTO_TEST_CASE(allocate_refuses) {
  const Ino a = file(root, "a", "abc"), d = dir(root, "d");
  const Ino fifo = tree.create(root, "p", {.type = Type::fifo}, guest).value().ino;
  BOOST_TEST(allocate(a, 0, 0) == EINVAL);
  BOOST_TEST(allocate(a, 0, 1, 2) == EOPNOTSUPP);  // PUNCH_HOLE without KEEP_SIZE
  BOOST_TEST(allocate(a, 0, 1, 8) == EOPNOTSUPP);  // COLLAPSE_RANGE
  BOOST_TEST(allocate(a, 0, 1, 2 | 16 | 1) == EOPNOTSUPP);
  BOOST_TEST(allocate(a, UINT64_MAX, 2) == EFBIG);
  BOOST_TEST(allocate(a, INT64_MAX, 1) == EFBIG);
  BOOST_TEST(allocate(d, 0, 1) == EISDIR);
  BOOST_TEST(allocate(fifo, 0, 1) == ENODEV);
  BOOST_TEST(allocate(999, 0, 1) == ENOENT);
  BOOST_TEST(allocate(a, 0, uint64_t{1} << 62) == ENOSPC);
  BOOST_TEST(read(tree, a) == "abc");
}

BOOST_AUTO_TEST_CASE(a_snapshot_is_not_touched_by_ranges) {
  const std::string all = text(40 * kPageBytes);
  const Ino a = file(root, "a", all);
  Snapshot before = tree.snapshot();
  BOOST_TEST(allocate(a, 100, 30 * kPageBytes, kPunch) == 0);
  BOOST_TEST(allocate(a, 50 * kPageBytes, kPageBytes) == 0);
  BOOST_TEST(copy(a, 35 * kPageBytes, a, 0, kPageBytes) == static_cast<int64_t>(kPageBytes));
  BOOST_TEST((read(before, a) == all));
  tree.release(std::move(before));
  while (tree.reclaim(1000)) {
  }
  BOOST_TEST(pages() == blocks(a) / 8 - 1);  // one page is shared by two places
}

BOOST_AUTO_TEST_CASE(copy_range_shares_whole_pages) {
  const std::string all = text(20 * kPageBytes + 100);
  const Ino a = file(root, "a", all), b = file(root, "b");
  const uint64_t before = pages();
  BOOST_TEST(copy(a, 0, b, 0, uint64_t{1} << 40) == static_cast<int64_t>(all.size()));
  BOOST_TEST((read(tree, b) == all));
  BOOST_TEST(pages() == before);
  BOOST_TEST(blocks(b) == blocks(a));
  write(b, 5, "changed");
  BOOST_TEST((read(tree, a) == all));
  BOOST_TEST(pages() == before + 1);
  BOOST_TEST(copy(a, all.size(), b, 0, 10) == 0);
  BOOST_TEST(copy(a, all.size() - 3, b, 0, 10) == 3);
  BOOST_TEST(size(b) == all.size());
}

BOOST_AUTO_TEST_CASE(copy_range_between_any_places) {
  const std::string all = text(9 * kPageBytes + 77), other = text(12 * kPageBytes, 9);
  unsigned round = 0;
  for (const uint64_t from : {uint64_t{0}, uint64_t{1}, uint64_t{4096}, uint64_t{5000}, uint64_t{20000}}) {
    for (const uint64_t to :
         {uint64_t{0}, uint64_t{1}, uint64_t{904}, uint64_t{8192}, uint64_t{49152}, uint64_t{70001}}) {
      for (const uint64_t count :
           {uint64_t{1}, uint64_t{95}, uint64_t{4096}, uint64_t{12345}, uint64_t{1000000}}) {
        const std::string name = std::to_string(round++);
        const Ino a = file(root, "a" + name, all), b = file(root, "b" + name, other);
        const uint64_t moved = std::min<uint64_t>(count, all.size() - from);
        BOOST_REQUIRE(copy(a, from, b, to, count) == static_cast<int64_t>(moved));
        std::string expected = other;
        expected.resize(std::max<size_t>(expected.size(), to + moved), '\0');
        expected.replace(to, moved, all, from, moved);
        BOOST_REQUIRE_MESSAGE(read(tree, b) == expected, from << " → " << to << ", " << count);
        BOOST_REQUIRE(read(tree, a) == all);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(copy_range_in_one_file_and_of_holes) {
  const std::string all = text(8 * kPageBytes);
  const Ino a = file(root, "a", all);
  BOOST_TEST(copy(a, 0, a, 4096, 4097) == -EINVAL);
  BOOST_TEST(copy(a, 4096, a, 0, 4097) == -EINVAL);
  BOOST_TEST(copy(a, 0, a, 4 * kPageBytes, 4 * kPageBytes) == static_cast<int64_t>(4 * kPageBytes));
  BOOST_TEST((read(tree, a) == all.substr(0, 4 * kPageBytes) + all.substr(0, 4 * kPageBytes)));
  BOOST_TEST(pages() == 4u);
  BOOST_TEST(copy(a, 0, a, 100 * kPageBytes + 5, 6000) == 6000);
  BOOST_TEST(read(tree, a, 100 * kPageBytes + 5, 6000) == all.substr(0, 6000));

  const Ino sparse = file(root, "sparse"), b = file(root, "b", text(16 * kPageBytes));
  BOOST_TEST(error_of(resize(sparse, 64 * kPageBytes)) == 0);
  BOOST_TEST(allocate(sparse, 2 * kPageBytes, kPageBytes) == 0);
  write(sparse, 3 * kPageBytes, "data");
  BOOST_TEST(copy(sparse, 0, b, 0, 64 * kPageBytes) == static_cast<int64_t>(64 * kPageBytes));
  BOOST_TEST(blocks(b) == 8u);
  BOOST_TEST(seek(b, 0, 3) == static_cast<int64_t>(3 * kPageBytes));
}

BOOST_AUTO_TEST_CASE(copy_range_refuses) {
  const Ino a = file(root, "a", "abc"), d = dir(root, "d"), l = symlink(root, "l", "a");
  BOOST_TEST(copy(d, 0, a, 0, 1) == -EISDIR);
  BOOST_TEST(copy(a, 0, d, 0, 1) == -EISDIR);
  BOOST_TEST(copy(l, 0, a, 0, 1) == -EINVAL);
  BOOST_TEST(copy(a, 0, 999, 0, 1) == -ENOENT);
  BOOST_TEST(copy(a, UINT64_MAX, a, 0, 1) == -EOVERFLOW);
  BOOST_TEST(copy(a, 0, a, INT64_MAX, 1) == -EFBIG);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_CASE(the_budget_of_bytes_is_exact_for_ranges) {
  Ranges at({.bytes = 10 * kPageBytes});
  const Ino a = at.file(at.root, "a"), b = at.file(at.root, "b");
  BOOST_TEST(at.allocate(a, 0, 11 * kPageBytes) == ENOSPC);
  BOOST_TEST(at.pages() == 0u);
  BOOST_TEST(at.allocate(a, 0, 10 * kPageBytes) == 0);
  BOOST_TEST(error_of(at.put(b, 0, "x")) == ENOSPC);
  BOOST_TEST(error_of(at.put(a, 0, "x")) == 0);  // what is allocated can be written
  BOOST_TEST(at.allocate(a, 9 * kPageBytes, kPageBytes, kPunch) == 0);
  BOOST_TEST(error_of(at.put(b, 0, "x")) == 0);
  BOOST_TEST(at.copy(b, 0, b, 100, 1) == 1);
  BOOST_TEST(at.copy(b, 0, b, 5000, 1) == -ENOSPC);
}

BOOST_AUTO_TEST_CASE(sharing_has_an_end) {
  Ranges at({.bytes = 16 * kPageBytes});
  const Ino a = at.file(at.root, "a", text(8 * kPageBytes)), b = at.file(at.root, "b");
  uint64_t copies = 0;
  while (at.copy(a, 0, b, copies * 8 * kPageBytes, 8 * kPageBytes) > 0 && copies < 1000) ++copies;
  BOOST_TEST(copies == 31u);  // with `a`, 32 times 8 pages: sixteen times the budget
  BOOST_TEST(error_of(at.tree.unlink(at.root, "b", at.guest)) == 0);
  const Ino c = at.file(at.root, "c");
  BOOST_TEST(at.copy(a, 0, c, 0, 8 * kPageBytes) > 0);
}

}  // namespace
}  // namespace turnbox::fs
