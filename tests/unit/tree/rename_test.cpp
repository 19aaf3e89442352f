#include "tests/unit/tree/fixture.h"

namespace turnbox::fs {

BOOST_FIXTURE_TEST_SUITE(rename_verb, Fixture)

BOOST_AUTO_TEST_CASE(moves_a_file_and_keeps_its_inode) {
  const Ino d = dir(root, "d");
  const Ino f = file(root, "f", "x");
  now = {3000, 0};
  BOOST_REQUIRE(tree.rename(root, "f", d, "g", 0, guest));
  BOOST_TEST(tree.lookup(d, "g")->ino == f);
  BOOST_TEST(error_of(tree.lookup(root, "f")) == ENOENT);
  BOOST_TEST(
      (tree.getattr(f)->ctime == now && tree.getattr(root)->mtime == now && tree.getattr(d)->mtime == now));
  BOOST_TEST((tree.getattr(f)->mtime == Time{1000, 0}));
}

BOOST_AUTO_TEST_CASE(a_directory_takes_its_parent_link_along) {
  const Ino a = dir(root, "a"), b = dir(root, "b"), c = dir(a, "c");
  BOOST_REQUIRE(tree.rename(a, "c", b, "c", 0, guest));
  BOOST_TEST(tree.getattr(a)->nlink == 2u);
  BOOST_TEST(tree.getattr(b)->nlink == 3u);
  BOOST_TEST(tree.parent(c).value() == b);
}

BOOST_AUTO_TEST_CASE(replaces_what_may_be_replaced) {
  const Ino f = file(root, "f"), g = file(root, "g", "old");
  BOOST_REQUIRE(tree.rename(root, "f", root, "g", 0, guest));
  BOOST_TEST(tree.lookup(root, "g")->ino == f);
  BOOST_TEST(error_of(tree.getattr(g)) == ENOENT);
  const Ino full = dir(root, "full"), empty = dir(root, "empty");
  file(full, "x");
  BOOST_TEST(error_of(tree.rename(root, "empty", root, "full", 0, guest)) == ENOTEMPTY);
  BOOST_TEST(error_of(tree.rename(root, "g", root, "empty", 0, guest)) == EISDIR);
  BOOST_TEST(error_of(tree.rename(root, "empty", root, "g", 0, guest)) == ENOTDIR);
  BOOST_REQUIRE(tree.rename(root, "full", root, "empty", 0, guest));
  BOOST_TEST(tree.lookup(root, "empty")->ino == full);
  BOOST_TEST(error_of(tree.getattr(empty)) == ENOENT);
  BOOST_TEST(tree.getattr(root)->nlink == 3u);
}

BOOST_AUTO_TEST_CASE(a_replaced_file_that_is_held_lives_on) {
  file(root, "f");
  const Ino g = file(root, "g", "old");
  tree.hold(g);
  BOOST_REQUIRE(tree.rename(root, "f", root, "g", 0, guest));
  BOOST_TEST(read(tree, g) == "old");
  tree.unhold(g);
  BOOST_TEST(error_of(tree.getattr(g)) == ENOENT);
}

BOOST_AUTO_TEST_CASE(a_directory_never_moves_below_itself) {
  const Ino a = dir(root, "a"), b = dir(a, "b");
  BOOST_TEST(error_of(tree.rename(root, "a", b, "x", 0, guest)) == EINVAL);
  BOOST_TEST(error_of(tree.rename(root, "a", a, "x", 0, guest)) == EINVAL);
  BOOST_TEST(error_of(tree.rename(a, "b", root, "a", 0, guest)) == ENOTEMPTY);
  BOOST_TEST(error_of(tree.rename(a, "b", root, "a", Tree::kExchange, guest)) == EINVAL);
  BOOST_TEST(error_of(tree.rename(root, "a", a, "b", Tree::kExchange, guest)) == EINVAL);
}

BOOST_AUTO_TEST_CASE(two_names_of_one_file_stay_both) {
  const Ino f = file(root, "f");
  BOOST_REQUIRE(tree.link(f, root, "g", guest));
  BOOST_REQUIRE(tree.rename(root, "f", root, "g", 0, guest));
  BOOST_REQUIRE(tree.rename(root, "f", root, "f", 0, guest));
  BOOST_TEST(names(tree, root).size() == 2u);
  BOOST_TEST(tree.getattr(f)->nlink == 2u);
}

BOOST_AUTO_TEST_CASE(flags) {
  file(root, "f");
  file(root, "g");
  BOOST_TEST(error_of(tree.rename(root, "f", root, "g", Tree::kNoReplace, guest)) == EEXIST);
  BOOST_TEST(error_of(tree.rename(root, "f", root, "h", Tree::kExchange, guest)) == ENOENT);
  BOOST_TEST(error_of(tree.rename(root, "f", root, "h", Tree::kNoReplace | Tree::kExchange, guest)) ==
             EINVAL);
  BOOST_TEST(error_of(tree.rename(root, "f", root, "h", Tree::kWhiteout | Tree::kExchange, guest)) == EINVAL);
  BOOST_TEST(error_of(tree.rename(root, "f", root, "h", 8, guest)) == EINVAL);
  BOOST_REQUIRE(tree.rename(root, "f", root, "h", Tree::kNoReplace, guest));
}

BOOST_AUTO_TEST_CASE(a_whiteout_stands_at_the_old_name) {
  const Ino a = dir(root, "a"), b = dir(root, "b"), sub = dir(a, "sub"), f = file(a, "f");
  file(b, "over");
  const auto is_whiteout = [&](const char* name) {
    const Attr attr = tree.lookup(a, name).value();
    return attr.type == Type::character && attr.rdev == 0 && attr.mode == 0 && attr.nlink == 1 &&
           attr.uid == 1000;
  };
  const uint64_t names_before = tree.usage().name_bytes, inodes_before = tree.usage().inodes;
  BOOST_TEST(error_of(tree.rename(a, "f", b, "g", Tree::kWhiteout, guest)) == 0);
  BOOST_TEST(is_whiteout("f"));
  BOOST_TEST(tree.lookup(b, "g")->ino == f);
  BOOST_TEST(error_of(tree.rename(a, "sub", b, "sub", Tree::kWhiteout | Tree::kNoReplace, guest)) == 0);
  BOOST_TEST(is_whiteout("sub"));
  BOOST_TEST(tree.lookup(b, "sub")->ino == sub);
  BOOST_TEST(tree.getattr(a)->nlink == 2u);
  BOOST_TEST(tree.usage().name_bytes == names_before + 4);
  BOOST_TEST(tree.usage().inodes == inodes_before + 2);
  BOOST_TEST(error_of(tree.rename(b, "g", b, "over", Tree::kWhiteout, guest)) == 0);
  BOOST_TEST(tree.lookup(b, "over")->ino == f);
  BOOST_TEST(tree.usage().inodes == inodes_before + 2);  // one more, and the one that was replaced is gone
  BOOST_TEST(error_of(tree.rename(a, "f", a, "moved", Tree::kWhiteout, guest)) == 0);  // a whiteout itself
  BOOST_TEST(is_whiteout("f"));
  BOOST_TEST(is_whiteout("moved"));
}

BOOST_AUTO_TEST_CASE(exchange_of_a_file_and_a_directory_between_directories) {
  const Ino a = dir(root, "a"), b = dir(root, "b"), sub = dir(a, "x"), f = file(b, "y");
  file(sub, "inside");
  BOOST_REQUIRE(tree.rename(a, "x", b, "y", Tree::kExchange, guest));
  BOOST_TEST(tree.lookup(a, "x")->ino == f);
  BOOST_TEST(tree.lookup(b, "y")->ino == sub);
  BOOST_TEST(tree.parent(sub).value() == b);
  BOOST_TEST(tree.getattr(a)->nlink == 2u);
  BOOST_TEST(tree.getattr(b)->nlink == 3u);
  bool checked = false;
  (void)tree.readdir(b, 0,
                     [&](const Dirent& entry) { return checked = entry.type == Type::directory, true; });
  BOOST_TEST(checked);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::fs
