#include "fs/tree/diff.h"
#include "fs/tree/digest.h"
#include "tests/unit/tree/fixture.h"

namespace turnbox::fs {
namespace {

void settle(Tree& tree) {
  while (tree.reclaim(1000)) {
  }
}

std::string changes(const View& from, const View& to, Ino root) {
  std::string all;
  diff(from, root, to, root, [&all](Change change, Type, std::string_view path) {
    all += static_cast<char>(change);
    all.append(path) += ' ';
  });
  return all;
}

int overwrite(Tree& tree, Ino ino, const std::string& text) {
  const char* from = text.data();
  const auto fill = [&from](std::span<std::byte> to) {
    std::memcpy(to.data(), from, to.size());
    from += to.size();
  };
  return error_of(tree.write(ino, 0, text.size(), fill, false, {}));
}

BOOST_FIXTURE_TEST_SUITE(forks, Fixture)

BOOST_AUTO_TEST_CASE(both_go_on_alone) {
  const Ino a = file(root, "a", "old"), d = dir(root, "d");
  file(d, "below", "x");
  Snapshot base = tree.snapshot();
  write(a, 0, "after the snapshot");
  const auto other = tree.fork(base);
  BOOST_TEST(read(*other, a) == "old");
  BOOST_TEST(overwrite(*other, a, "fork") == 0);
  const Ino b = other->create(root, "b", {}, guest).value().ino;
  const Ino c = file(root, "c");
  BOOST_TEST(b == c);  // each goes on from the snapshot's numbers
  BOOST_TEST(error_of(other->unlink(d, "below", guest)) == 0);
  BOOST_TEST(read(tree, a) == "after the snapshot");
  BOOST_TEST(read(base, a) == "old");
  BOOST_TEST(read(*other, a) == "fork");
  BOOST_TEST((names(tree, root) == std::vector<std::string>{"a", "c", "d"}));
  BOOST_TEST((names(*other, root) == std::vector<std::string>{"a", "b", "d"}));
  BOOST_TEST((names(tree, d) == std::vector<std::string>{"below"}));
  BOOST_TEST(names(*other, d).empty());
  BOOST_TEST(changes(base, *other, root) == "~a +b -d/below ");
  BOOST_TEST(changes(tree, *other, root) == "~a +b -c -d/below ");
}

BOOST_AUTO_TEST_CASE(either_may_go_first) {
  const std::string large(300'000, 'x');
  for (const bool fork_first : {true, false}) {
    auto mine = std::make_unique<Tree>(Budget{}, [this] { return now; });
    const Ino top = mine->make_root(0, 0755);
    const Ino a = mine->create(top, "a", {}, guest).value().ino;
    BOOST_TEST(overwrite(*mine, a, large) == 0);
    BOOST_TEST(error_of(mine->setxattr(a, "user.x", std::vector<std::byte>(60'000), Tree::XattrMode::either,
                                       host)) == 0);
    Snapshot base = mine->snapshot();
    auto other = mine->fork(base);
    mine->release(std::move(base));
    BOOST_TEST(overwrite(*other, a, "fork") == 0);
    BOOST_TEST(overwrite(*mine, a, "mine") == 0);
    (fork_first ? other : mine).reset();
    Tree& left = fork_first ? *mine : *other;
    BOOST_TEST(read(left, a) == (fork_first ? "mine" : "fork") + large.substr(4));
    settle(left);
    BOOST_TEST(left.usage().bytes == (large.size() + 4095) / 4096 * 4096);
    BOOST_TEST(left.getxattr(a, "user.x").value().size() == 60'000u);
    BOOST_TEST(error_of(left.unlink(top, "a", guest)) == 0);
    settle(left);
    BOOST_TEST(left.usage().bytes == 0u);
    BOOST_TEST(left.memory().node_bytes < 2048u);
  }
}

BOOST_AUTO_TEST_CASE(a_fork_of_a_fork_and_its_snapshots) {
  const Ino a = file(root, "a", "one");
  Snapshot first = tree.snapshot();
  auto second = tree.fork(first);
  BOOST_TEST(overwrite(*second, a, "two") == 0);
  Snapshot middle = second->snapshot();
  auto third = second->fork(middle);
  BOOST_TEST(overwrite(*third, a, "six") == 0);
  BOOST_TEST(overwrite(*second, a, "ten") == 0);
  BOOST_TEST(read(middle, a) == "two");
  second->release(std::move(middle));
  second.reset();
  BOOST_TEST(read(tree, a) == "one");
  BOOST_TEST(read(*third, a) == "six");
}

BOOST_AUTO_TEST_CASE(one_digest_cache_is_not_confused_by_two_trees) {
  const Ino a = file(root, "a", "same");
  Snapshot base = tree.snapshot();
  auto other = tree.fork(base);
  DigestCache cache;
  const auto digest = [&](Tree& of) {
    Snapshot now_of = of.snapshot();
    return digest_tree(now_of, root, cache).value();
  };
  const TreeDigest before = digest(tree);
  BOOST_TEST((digest(*other).content == before.content));
  BOOST_TEST(overwrite(*other, a, "fork") == 0);
  BOOST_TEST(overwrite(tree, a, "mine") == 0);
  const sys::Digest forked = digest(*other).content, mine = digest(tree).content;
  BOOST_TEST((forked != mine));
  BOOST_TEST(overwrite(tree, a, "fork") == 0);
  BOOST_TEST((digest(tree).content == forked));
  // The same number for two files made on each side.
  const Ino left = file(root, "new", "left"),
            right = other->create(root, "new", {.mode = 0644}, guest).value().ino;
  BOOST_TEST(left == right);
  BOOST_TEST(overwrite(*other, right, "rite") == 0);
  BOOST_TEST((digest(tree).content != digest(*other).content));
  BOOST_TEST(overwrite(*other, right, "left") == 0);
  BOOST_TEST((digest(tree).content == digest(*other).content));
}

BOOST_AUTO_TEST_CASE(what_was_held_without_a_name_is_freed_in_the_fork) {
  const Ino a = file(root, "a", std::string(50'000, 'x')), d = dir(root, "d");
  tree.hold(a);
  tree.hold(d);
  BOOST_TEST(error_of(tree.unlink(root, "a", guest)) == 0);
  BOOST_TEST(error_of(tree.rmdir(root, "d", guest)) == 0);
  const Ino unnamed = tree.create_unnamed(root, 0600, guest).value().ino;
  Snapshot base = tree.snapshot();
  auto other = tree.fork(base);
  BOOST_TEST(other->usage().inodes == 4u);
  settle(*other);
  BOOST_TEST(other->usage().inodes == 1u);
  BOOST_TEST(error_of(other->getattr(unnamed)) == ENOENT);
  BOOST_TEST(tree.usage().inodes == 4u);
  BOOST_TEST(read(tree, a).size() == 50'000u);
  tree.unhold(a);
  tree.unhold(d);
  tree.unhold(unnamed);
  BOOST_TEST(tree.usage().inodes == 1u);
}

BOOST_AUTO_TEST_CASE(zones_and_budgets_are_each_its_own) {
  const ZoneId zone = tree.add_zone({});
  const Ino top = tree.make_root(zone, 0755), a = file(top, "a", "x");
  tree.set_zone_state(zone, ZoneState::sealed);
  Snapshot base = tree.snapshot();
  auto other = tree.fork(base);
  BOOST_TEST(error_of(other->write(
                 a, 0, 1, [](std::span<std::byte>) {}, false, guest)) == EROFS);
  other->set_zone_state(zone, ZoneState::writable);
  BOOST_TEST(error_of(other->unlink(top, "a", guest)) == 0);
  BOOST_TEST(error_of(tree.unlink(top, "a", guest)) == EROFS);
  BOOST_TEST(other->usage().inodes == tree.usage().inodes - 1);
}

BOOST_AUTO_TEST_CASE(a_clone_reaches_across_a_family) {
  const Ino a = file(root, "a", "from here");
  Snapshot base = tree.snapshot();
  auto other = tree.fork(base);
  BOOST_TEST(overwrite(*other, a, "from fork") == 0);
  Snapshot theirs = other->snapshot();
  const Ino copy = tree.clone(theirs, a, root, "copy", 0).value().ino;
  BOOST_TEST(read(tree, copy) == "from fork");
  other->release(std::move(theirs));
  other.reset();
  BOOST_TEST(read(tree, copy) == "from fork");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnbox::fs
