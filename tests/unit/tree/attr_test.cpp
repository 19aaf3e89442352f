#include "tests/unit/tree/fixture.h"

namespace turnbox::fs {

BOOST_FIXTURE_TEST_SUITE(attributes, Fixture)

BOOST_AUTO_TEST_CASE(suid_and_sgid_go_where_they_must) {
  const auto mode_after = [&](uint16_t mode, auto&& change) {
    const Ino f = file(root, "f", "x", mode);
    change(f);
    const uint16_t left = tree.getattr(f)->mode;
    BOOST_REQUIRE(tree.unlink(root, "f", guest));
    return left;
  };
  const auto chown = [&](Ino f) { (void)tree.setattr(f, {.valid = SetAttr::kUid, .uid = 5}, guest); };
  const auto killing_write = [&](Ino f) { write(f, 0, "y", true); };
  const auto plain_write = [&](Ino f) { write(f, 0, "y"); };
  const auto killing_truncate = [&](Ino f) {
    (void)tree.setattr(f, {.valid = SetAttr::kSize | SetAttr::kKillSuidgid, .size = 0}, guest);
  };
  BOOST_TEST(mode_after(06755, chown) == 0755);
  BOOST_TEST(mode_after(06745, chown) ==
             02745);  // no group execution: sgid means mandatory locking, not a group
  BOOST_TEST(mode_after(06755, killing_write) == 0755);
  BOOST_TEST(mode_after(06755, plain_write) == 06755);
  BOOST_TEST(mode_after(06755, killing_truncate) == 0755);
  const Ino d = dir(root, "d", 02755);
  chown(d);
  BOOST_TEST(tree.getattr(d)->mode == 02755);
}

BOOST_AUTO_TEST_CASE(times_follow_posix) {
  const Ino f = file(root, "f", "x");
  now = {2000, 0};
  BOOST_REQUIRE(tree.setattr(f, {.valid = SetAttr::kMode, .mode = 0600}, guest));
  BOOST_TEST((tree.getattr(f)->mtime == Time{1000, 0} && tree.getattr(f)->ctime == now));
  now = {3000, 0};
  BOOST_REQUIRE(resize(f, 1));  // the same size of a file with a page still counts
  BOOST_TEST((tree.getattr(f)->mtime == now && tree.getattr(f)->ctime == now));
  now = {4000, 0};
  BOOST_REQUIRE(tree.setattr(
      f, {.valid = SetAttr::kAtime | SetAttr::kMtime, .atime = {-5, 1}, .mtime = {7, 2}}, guest));
  BOOST_TEST((tree.getattr(f)->atime == Time{-5, 1} && tree.getattr(f)->mtime == Time{7, 2}));
  BOOST_TEST((tree.getattr(f)->ctime == now));
  read(tree, f);
  BOOST_TEST((tree.getattr(f)->atime == Time{-5, 1}));
}

BOOST_AUTO_TEST_CASE(wrong_values_are_refused) {
  const Ino f = file(root, "f");
  BOOST_TEST(error_of(tree.setattr(f, {.valid = SetAttr::kMtime, .mtime = {0, 1'000'000'000}}, guest)) ==
             EINVAL);
  BOOST_TEST(error_of(tree.setattr(f, {.valid = SetAttr::kAtime, .atime = {0, UINT32_MAX}}, guest)) ==
             EINVAL);
  BOOST_TEST(error_of(tree.setattr(f, {.valid = SetAttr::kUid, .uid = UINT32_MAX}, guest)) == EINVAL);
  BOOST_TEST(error_of(tree.setattr(f, {.valid = SetAttr::kMode, .mode = 0100644}, guest)) == EINVAL);
  BOOST_TEST(error_of(tree.setattr(77, {.valid = SetAttr::kMode}, guest)) == ENOENT);
}

BOOST_AUTO_TEST_CASE(device_numbers_are_kept_as_data) {
  const auto made = tree.create(root, "null", {.type = Type::character, .mode = 0666, .rdev = 0x103}, guest);
  BOOST_TEST(made->rdev == 0x103u);
  BOOST_TEST(made->blocks == 0u);
  BOOST_TEST(tree.create(root, "p", {.type = Type::fifo, .mode = 0666, .rdev = 9}, guest)->rdev == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::fs
