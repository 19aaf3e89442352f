#include "fs/tree/diff.h"

#include "tests/unit/tree/fixture.h"

namespace turnbox::fs {
namespace {

std::string changes(const View& from, Ino from_root, const View& to, Ino to_root) {
  std::string text;
  diff(from, from_root, to, to_root, [&](Change change, Type type, std::string_view path) {
    text += static_cast<char>(change);
    text += type == Type::directory ? 'd' : type == Type::symlink ? 'l' : 'f';
    text += ' ';
    text.append(path).append("\n");
  });
  return text;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(differences, Fixture)

BOOST_AUTO_TEST_CASE(each_kind_of_change_in_path_order) {
  const Ino a = dir(root, "a");
  file(a, "kept", "same");
  const Ino f = file(a, "f", "one");
  file(root, "a-b", "x");
  file(root, "gone", "x");
  const Ino sub = dir(root, "sub");
  file(sub, "below", "x");
  symlink(root, "link", "here");
  Snapshot before = tree.snapshot();
  write(f, 0, "two");
  file(a, "new", "x");
  BOOST_REQUIRE(tree.unlink(root, "gone", guest));
  BOOST_REQUIRE(tree.unlink(root, "link", guest));
  symlink(root, "link", "there");
  BOOST_REQUIRE(tree.rename(root, "sub", a, "moved", 0, guest));
  BOOST_REQUIRE(tree.setattr(tree.lookup(root, "a-b")->ino, {.valid = SetAttr::kMode, .mode = 0600}, guest));
  BOOST_TEST(
      changes(before, root, tree, root) ==
      "~f a-b\n~f a/f\n+d a/moved\n+f a/moved/below\n+f a/new\n-f gone\n~l link\n-d sub\n-f sub/below\n");
  BOOST_TEST(changes(tree, root, tree, root).empty());
  BOOST_TEST(changes(before, root, before, root).empty());
}

BOOST_AUTO_TEST_CASE(times_and_equal_bytes_are_no_change) {
  const Ino f = file(root, "f", std::string(100'000, 'x'));
  file(root, "replaced", "same");
  Snapshot before = tree.snapshot();
  now = {5000, 0};
  write(f, 0, std::string(100'000, 'x'));
  BOOST_REQUIRE(tree.setattr(f, {.valid = SetAttr::kMtime, .mtime = {1, 0}}, guest));
  file(root, "temporary", "same");
  BOOST_REQUIRE(tree.rename(root, "temporary", root, "replaced", 0, guest));
  BOOST_TEST(changes(before, root, tree, root).empty());
  write(f, 99'999, "y");
  BOOST_TEST(changes(before, root, tree, root) == "~f f\n");
}

BOOST_AUTO_TEST_CASE(a_hole_equals_zeros_of_the_same_size) {
  const Ino f = file(root, "f");
  BOOST_REQUIRE(resize(f, 200'000));
  Snapshot before = tree.snapshot();
  write(f, 100'000, std::string(5000, '\0'));
  BOOST_TEST(changes(before, root, tree, root).empty());
  write(f, 104'000, "1");
  BOOST_TEST(changes(before, root, tree, root) == "~f f\n");
}

BOOST_AUTO_TEST_CASE(a_change_through_another_name_shows_at_each) {
  const Ino d = dir(root, "d"), e = dir(root, "e");
  const Ino f = file(d, "one", "x");
  BOOST_REQUIRE(tree.link(f, e, "two", guest));
  Snapshot before = tree.snapshot();
  write(f, 0, "y");
  BOOST_TEST(changes(before, root, tree, root) == "~f d/one\n~f e/two\n");
  BOOST_REQUIRE(tree.unlink(e, "two", guest));
  Snapshot between = tree.snapshot();
  write(f, 0, "z");  // its one name is left in d, not in the directory of the newest
  BOOST_TEST(changes(between, root, tree, root) == "~f d/one\n");
}

BOOST_AUTO_TEST_CASE(a_type_that_changes_is_a_removal_and_an_addition) {
  file(root, "x", "was a file");
  const Ino d = dir(root, "y");
  file(d, "below");
  Snapshot before = tree.snapshot();
  BOOST_REQUIRE(tree.unlink(root, "x", guest));
  file(dir(root, "x"), "inside");
  BOOST_REQUIRE(tree.unlink(d, "below", guest));
  BOOST_REQUIRE(tree.rmdir(root, "y", guest));
  file(root, "y");
  BOOST_TEST(changes(before, root, tree, root) == "-f x\n+d x\n+f x/inside\n-d y\n+f y\n-f y/below\n");
}

BOOST_AUTO_TEST_CASE(two_different_roots_and_single_files) {
  const Ino d = dir(root, "d");
  const Ino f = file(dir(d, "sub"), "f", "one");
  const Ino copy = tree.clone(tree, d, root, "copy", 0)->ino;
  BOOST_TEST(changes(tree, d, tree, copy).empty());
  write(f, 0, "two");
  file(d, "more");
  BOOST_TEST(changes(tree, copy, tree, d) == "+f more\n~f sub/f\n");
  const Ino copied = tree.lookup(tree.lookup(copy, "sub")->ino, "f")->ino;
  BOOST_TEST(changes(tree, copied, tree, f) == "~f \n");
}

BOOST_AUTO_TEST_CASE(a_deep_tree_needs_no_stack) {
  Snapshot before = tree.snapshot();
  Ino at = root;
  for (int i = 0; i < 20'000; ++i) at = dir(at, "d");
  unsigned count = 0;
  diff(before, root, tree, root, [&](Change, Type, std::string_view) { ++count; });
  BOOST_TEST(count == 20'000u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::fs
