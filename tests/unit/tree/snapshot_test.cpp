#include <thread>

#include "tests/unit/tree/fixture.h"

namespace turnbox::fs {

BOOST_FIXTURE_TEST_SUITE(snapshots, Fixture)

BOOST_AUTO_TEST_CASE(a_snapshot_stays_what_it_was) {
  const Ino f = file(root, "f", "before");
  const Ino d = dir(root, "d");
  Snapshot snapshot = tree.snapshot();
  BOOST_TEST(snapshot.id() == 1u);
  write(f, 0, "after!!");
  file(d, "new");
  BOOST_REQUIRE(tree.unlink(root, "f", guest));
  BOOST_TEST(read(snapshot, f) == "before");
  BOOST_TEST(names(snapshot, root) == (std::vector<std::string>{"d", "f"}), boost::test_tools::per_element());
  BOOST_TEST(names(snapshot, d).empty());
  BOOST_TEST(error_of(tree.getattr(f)) == ENOENT);
  tree.release(std::move(snapshot));
}

BOOST_AUTO_TEST_CASE(changes_after_a_release_are_made_in_place_again) {
  const Ino f = file(root, "f", std::string(100'000, 'a'));
  tree.release(tree.snapshot());
  while (tree.reclaim(1000)) {
  }
  const Memory before = tree.memory();
  write(f, 0, std::string(100'000, 'b'));
  BOOST_TEST(tree.memory().page_bytes == before.page_bytes);
  BOOST_TEST(tree.memory().node_bytes == before.node_bytes);
}

BOOST_AUTO_TEST_CASE(a_release_gives_back_exactly_what_the_snapshot_held_alone) {
  const Ino f = file(root, "f", std::string(40'960, 'a'));
  const Memory before = tree.memory();
  Snapshot snapshot = tree.snapshot();
  write(f, 0, std::string(8192, 'b'));
  BOOST_TEST(tree.memory().page_bytes == before.page_bytes + 8192);
  tree.release(std::move(snapshot));
  while (tree.reclaim(1000)) {
  }
  BOOST_TEST(tree.memory().page_bytes == before.page_bytes);
  BOOST_TEST(tree.memory().node_bytes == before.node_bytes);
}

BOOST_AUTO_TEST_CASE(release_goes_in_steps) {
  for (int i = 0; i < 20'000; ++i) file(root, "f" + std::to_string(i), "x");
  Snapshot snapshot = tree.snapshot();
  for (int i = 0; i < 20'000; ++i)
    BOOST_REQUIRE(tree.unlink(root, "f" + std::to_string(i), guest).has_value());
  const uint64_t held = tree.memory().node_bytes;
  tree.release(std::move(snapshot));
  BOOST_TEST(tree.memory().node_bytes == held);
  unsigned steps = 1;
  while (tree.reclaim(1)) ++steps;
  BOOST_TEST(steps > 10u);
  BOOST_TEST(tree.usage().bytes == 0u);
  BOOST_TEST(tree.memory().node_bytes < 1024u);
}

BOOST_AUTO_TEST_CASE(a_verb_says_when_it_left_something_to_reclaim) {
  int told = 0;
  tree.on_garbage([&] { ++told; });
  file(root, "small", "x");
  BOOST_REQUIRE(tree.unlink(root, "small", guest));
  BOOST_TEST(told == 0);
  const uint64_t before = tree.usage().bytes;
  file(root, "large", std::string(8 << 20, 'x'));
  BOOST_TEST(told == 0);
  BOOST_REQUIRE(tree.unlink(root, "large", guest));
  BOOST_TEST(told == 1);
  while (tree.reclaim(1000)) {
  }
  BOOST_TEST(tree.usage().bytes == before);
  tree.on_garbage({});
}

BOOST_AUTO_TEST_CASE(a_moved_token_is_released_once) {
  Snapshot a = tree.snapshot();
  Snapshot b = std::move(a);
  a = tree.snapshot();
  BOOST_TEST(b.id() == 1u);
  std::swap(a, b);
  BOOST_TEST(b.id() == 2u);
}

BOOST_AUTO_TEST_CASE(a_snapshot_of_an_empty_tree) {
  Tree empty({}, [] { return Time{}; });
  Snapshot snapshot = empty.snapshot();
  BOOST_TEST(error_of(snapshot.getattr(1)) == ENOENT);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(clones, Fixture)

BOOST_AUTO_TEST_CASE(a_clone_shares_pages_until_one_side_writes) {
  const Ino f = file(root, "f", std::string(100'000, 'a'));
  const uint64_t bytes = tree.usage().bytes;
  const Attr copy = tree.clone(tree, f, root, "g", 0).value();
  BOOST_TEST(copy.ino != f);
  BOOST_TEST(copy.nlink == 1u);
  BOOST_TEST(copy.blocks == tree.getattr(f)->blocks);
  BOOST_TEST(tree.usage().bytes == bytes);
  write(copy.ino, 50'000, "changed");
  BOOST_TEST(tree.usage().bytes == bytes + 4096);
  BOOST_TEST(read(tree, f) == std::string(100'000, 'a'));
  BOOST_REQUIRE(resize(f, 0));
  BOOST_TEST(read(tree, copy.ino).substr(49'999, 9) == "achangeda");
}

BOOST_AUTO_TEST_CASE(a_cloned_directory_is_complete_and_its_own) {
  const ZoneId zone = tree.add_zone({.state = ZoneState::sealed});
  const Ino d = dir(root, "d", 0711);
  const Ino f = file(d, "f", "content", 0604);
  BOOST_REQUIRE(tree.link(f, dir(d, "sub"), "hard", guest));
  symlink(d, "l", "target");
  Snapshot snapshot = tree.snapshot();
  write(f, 0, "CHANGED");
  now = {9000, 0};
  const Attr copy = tree.clone(snapshot, d, root, "copy", zone).value();
  BOOST_TEST(copy.mode == 0711);
  BOOST_TEST((copy.mtime == Time{1000, 0} && copy.ctime == now));
  BOOST_TEST(names(tree, copy.ino).size() == 3u);
  const Attr file_copy = tree.lookup(copy.ino, "f").value();
  BOOST_TEST(read(tree, file_copy.ino) == "content");
  BOOST_TEST(file_copy.nlink == 2u);
  BOOST_TEST(file_copy.zone == zone);
  BOOST_TEST(tree.lookup(tree.lookup(copy.ino, "sub")->ino, "hard")->ino == file_copy.ino);
  BOOST_TEST(tree.readlink(tree.lookup(copy.ino, "l")->ino).value() == "target");
  BOOST_TEST(error_of(put(file_copy.ino, 0, "x")) == EROFS);
  // Into itself: what is copied is what was there.
  BOOST_REQUIRE(tree.clone(tree, d, d, "inner", 0));
  BOOST_TEST(error_of(tree.lookup(tree.lookup(d, "inner")->ino, "inner")) == ENOENT);
}

BOOST_AUTO_TEST_CASE(a_clone_that_does_not_fit_makes_nothing) {
  Fixture small({.inodes = 6});
  const Ino d = small.dir(small.root, "d");
  for (const char* name : {"1", "2", "3"}) small.file(d, name);
  BOOST_TEST(error_of(small.tree.clone(small.tree, d, small.root, "copy", 0)) == ENOSPC);
  BOOST_TEST(small.tree.usage().inodes == 5u);
  BOOST_TEST(error_of(small.tree.clone(small.tree, d, small.root, "d", 0)) == EEXIST);
  BOOST_TEST(error_of(small.tree.clone(small.tree, 99, small.root, "copy", 0)) == ENOENT);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::fs
