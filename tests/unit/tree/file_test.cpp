#include "tests/unit/tree/fixture.h"

namespace turnbox::fs {

BOOST_FIXTURE_TEST_SUITE(content, Fixture)

BOOST_AUTO_TEST_CASE(writes_read_back_across_pages_and_chunks) {
  const Ino f = file(root, "f");
  std::string bytes(300'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + i / 4096);
  write(f, 0, bytes);
  BOOST_TEST((read(tree, f) == bytes));
  write(f, 65'530, "0123456789");
  bytes.replace(65'530, 10, "0123456789");
  BOOST_TEST((read(tree, f) == bytes));
  BOOST_TEST(read(tree, f, 65'528, 14) == bytes.substr(65'528, 14));
  BOOST_TEST(tree.getattr(f)->blocks == 74u * 8);
  BOOST_TEST(read(tree, f, 300'000).empty());
  BOOST_TEST(read(tree, f, UINT64_MAX).empty());
}

BOOST_AUTO_TEST_CASE(a_large_write_is_filled_in_few_spans) {
  const Ino f = file(root, "f");
  unsigned spans = 0;
  size_t bytes = 0;
  const auto fill = [&](std::span<std::byte> to) {
    ++spans, bytes += to.size(), std::memset(to.data(), 1, to.size());
  };
  BOOST_REQUIRE(tree.write(f, 0, 1 << 20, fill, false, guest));
  BOOST_TEST(bytes == 1u << 20);
  BOOST_TEST(spans <= 4u);
}

BOOST_AUTO_TEST_CASE(holes_read_as_zeros_and_hold_no_blocks) {
  const Ino f = file(root, "f", "start");
  write(f, 10 << 20, "end");
  BOOST_TEST(tree.getattr(f)->size == (10u << 20) + 3);
  BOOST_TEST(tree.getattr(f)->blocks == 16u);
  BOOST_TEST(read(tree, f, 0, 8) == std::string("start\0\0\0", 8));
  BOOST_TEST(read(tree, f, 5 << 20, 300'000) == std::string(300'000, '\0'));
  BOOST_TEST(tree.lseek(f, 0, 3).value() == 0u);
  BOOST_TEST(tree.lseek(f, 0, 4).value() == 4096u);
  BOOST_TEST(tree.lseek(f, 5000, 3).value() == 10u << 20);
  BOOST_TEST(tree.lseek(f, (10 << 20) + 1, 3).value() == (10u << 20) + 1);
  BOOST_TEST(tree.lseek(f, (10 << 20) + 1, 4).value() == (10u << 20) + 3);
  BOOST_TEST(error_of(tree.lseek(f, (10 << 20) + 3, 3)) == ENXIO);
  BOOST_TEST(error_of(tree.lseek(f, 0, 2)) == EINVAL);
  BOOST_REQUIRE(resize(f, 11 << 20));
  BOOST_TEST(error_of(tree.lseek(f, (10 << 20) + 5000, 3)) == ENXIO);
}

BOOST_AUTO_TEST_CASE(truncate_frees_pages_and_zeroes_what_growth_shows_again) {
  const Ino f = file(root, "f", std::string(200'000, 'x'));
  BOOST_REQUIRE(resize(f, 100'001));
  BOOST_TEST(tree.getattr(f)->blocks == 25u * 8);
  BOOST_TEST(tree.usage().bytes == 25u * 4096);
  BOOST_REQUIRE(resize(f, 100'010));
  BOOST_TEST(read(tree, f, 100'000, 100) == std::string("x\0\0\0\0\0\0\0\0\0", 10));
  BOOST_REQUIRE(resize(f, 0));
  BOOST_TEST(tree.getattr(f)->blocks == 0u);
  while (tree.reclaim(1000)) {
  }
  BOOST_TEST(tree.usage().bytes == 0u);
}

BOOST_AUTO_TEST_CASE(sizes_end_at_two_to_the_63rd) {
  const Ino f = file(root, "f");
  const uint64_t most = (uint64_t{1} << 63) - 1;
  BOOST_TEST(error_of(resize(f, most + 1)) == EFBIG);
  BOOST_TEST(error_of(resize(f, most)) == 0);
  BOOST_TEST(error_of(put(f, most, "x")) == EFBIG);
  BOOST_TEST(error_of(put(f, UINT64_MAX, "xx")) == EFBIG);
  BOOST_TEST(error_of(put(f, most - 1, "x")) == 0);
  BOOST_TEST(read(tree, f, most - 2) == std::string("\0x", 2));
  BOOST_TEST(tree.lseek(f, 0, 3).value() == most - 4095);
  BOOST_REQUIRE(resize(f, 1));
  BOOST_TEST(tree.getattr(f)->blocks == 0u);
}

BOOST_AUTO_TEST_CASE(what_has_no_content_says_so) {
  const Ino link = symlink(root, "l", "x");
  std::vector<std::span<const std::byte>> spans;
  BOOST_TEST(error_of(put(root, 0, "x")) == EISDIR);
  BOOST_TEST(error_of(put(link, 0, "x")) == EINVAL);
  BOOST_TEST(error_of(tree.read(root, 0, 1, spans)) == EISDIR);
  BOOST_TEST(error_of(tree.read(link, 0, 1, spans)) == EINVAL);
  BOOST_TEST(error_of(resize(root, 0)) == EISDIR);
  BOOST_TEST(error_of(resize(link, 0)) == EINVAL);
}

BOOST_AUTO_TEST_CASE(a_write_of_nothing_changes_nothing) {
  const Ino f = file(root, "f", "x", 04755);
  now = {5000, 0};
  BOOST_REQUIRE(put(f, 100, "", true));
  BOOST_TEST(tree.getattr(f)->size == 1u);
  BOOST_TEST(tree.getattr(f)->mode == 04755);
  BOOST_TEST((tree.getattr(f)->mtime == Time{1000, 0}));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(budget_of_bytes)

BOOST_AUTO_TEST_CASE(a_write_that_does_not_fit_has_no_effect) {
  Fixture small({.bytes = 16 * 4096});
  const Ino f = small.file(small.root, "f", std::string(10 * 4096, 'a'));
  small.now = {2000, 0};
  BOOST_TEST(error_of(small.put(f, 8 * 4096, std::string(9 * 4096, 'b'))) == ENOSPC);
  BOOST_TEST(small.tree.getattr(f)->size == 10u * 4096);
  BOOST_TEST((small.tree.getattr(f)->mtime == Time{1000, 0}));
  BOOST_TEST(read(small.tree, f) == std::string(10 * 4096, 'a'));
  BOOST_TEST(error_of(small.put(f, 8 * 4096, std::string(8 * 4096, 'b'))) == 0);
  BOOST_TEST(error_of(small.put(f, 0, std::string(16 * 4096, 'c'))) == 0);  // in place
  BOOST_TEST(error_of(small.put(f, 16 * 4096, "x")) == ENOSPC);
}

BOOST_AUTO_TEST_CASE(what_a_snapshot_holds_counts_until_it_is_released) {
  Fixture small({.bytes = 16 * 4096});
  const Ino f = small.file(small.root, "f", std::string(10 * 4096, 'a'));
  Snapshot snapshot = small.tree.snapshot();
  BOOST_TEST(error_of(small.put(f, 0, std::string(7 * 4096, 'b'))) == ENOSPC);
  BOOST_TEST(error_of(small.put(f, 0, std::string(6 * 4096, 'b'))) == 0);
  BOOST_TEST(small.tree.usage().bytes == 16u * 4096);
  small.tree.release(std::move(snapshot));  // and nobody calls reclaim()
  BOOST_TEST(error_of(small.put(f, 10 * 4096, std::string(6 * 4096, 'd'))) == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::fs
