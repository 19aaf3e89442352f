#include "tests/unit/tree/fixture.h"

namespace turnbox::fs {

BOOST_FIXTURE_TEST_SUITE(names_of_a_directory, Fixture)

BOOST_AUTO_TEST_CASE(create_answers_the_attributes_and_moves_the_directory) {
  now = {2000, 5};
  const auto made = tree.create(root, "f", {.mode = 04751}, {.uid = 7, .gid = 8, .umask = 022});
  BOOST_REQUIRE(made.has_value());
  BOOST_TEST(made->mode == 04751);
  BOOST_TEST(made->uid == 7u);
  BOOST_TEST(made->gid == 8u);
  BOOST_TEST(made->nlink == 1u);
  BOOST_TEST((made->atime == now && made->mtime == now && made->ctime == now));
  const Attr dir_attr = tree.getattr(root).value();
  BOOST_TEST((dir_attr.mtime == now && dir_attr.ctime == now));
  BOOST_TEST(dir_attr.size == 1u);
  BOOST_TEST(dir_attr.nlink == 2u);
}

BOOST_AUTO_TEST_CASE(bad_names_and_places_are_refused_and_change_nothing) {
  const Ino plain = file(root, "plain");
  const auto create = [&](Ino in, std::string_view name) {
    return error_of(tree.create(in, name, {.mode = 0644}, guest));
  };
  BOOST_TEST(create(root, "") == EINVAL);
  BOOST_TEST(create(root, ".") == EINVAL);
  BOOST_TEST(create(root, "..") == EINVAL);
  BOOST_TEST(create(root, "a/b") == EINVAL);
  BOOST_TEST(create(root, std::string_view("a\0b", 3)) == EINVAL);
  BOOST_TEST(create(root, std::string(256, 'n')) == ENAMETOOLONG);
  BOOST_TEST(create(root, "plain") == EEXIST);
  BOOST_TEST(create(plain, "x") == ENOTDIR);
  BOOST_TEST(create(999, "x") == ENOENT);
  BOOST_TEST(create(root, std::string(255, '\xff')) == 0);
  BOOST_TEST(names(tree, root).size() == 2u);
}

BOOST_AUTO_TEST_CASE(symlinks_keep_their_target_and_its_limits) {
  const Ino link = symlink(root, "l", "some/where");
  BOOST_TEST(tree.readlink(link).value() == "some/where");
  BOOST_TEST(tree.getattr(link)->size == 10u);
  BOOST_TEST(tree.getattr(link)->mode == 0777);
  const auto create = [&](const std::string& target) {
    return error_of(tree.create(root, "x", {.type = Type::symlink, .target = target}, guest));
  };
  BOOST_TEST(create("") == ENOENT);
  BOOST_TEST(create(std::string(4096, 't')) == ENAMETOOLONG);
  BOOST_TEST(create(std::string(4095, 't')) == 0);
  BOOST_TEST(error_of(tree.readlink(root)) == EINVAL);
}

BOOST_AUTO_TEST_CASE(setgid_directories_give_their_group_and_directories_the_bit) {
  const Ino shared = dir(root, "shared", 02775);
  BOOST_REQUIRE(tree.setattr(shared, {.valid = SetAttr::kGid, .gid = 55}, host));
  const auto below = tree.create(shared, "d", {.type = Type::directory, .mode = 0700}, guest).value();
  BOOST_TEST(below.gid == 55u);
  BOOST_TEST(below.mode == 02700);
  const auto plain = tree.create(shared, "f", {.mode = 0600}, guest).value();
  BOOST_TEST(plain.gid == 55u);
  BOOST_TEST(plain.mode == 0600);
}

BOOST_AUTO_TEST_CASE(links_share_an_inode_and_have_limits) {
  const Ino a = file(root, "a", "content");
  BOOST_TEST(tree.link(a, root, "b", guest)->nlink == 2u);
  BOOST_TEST(tree.lookup(root, "b")->ino == a);
  BOOST_TEST(error_of(tree.link(a, root, "b", guest)) == EEXIST);
  BOOST_TEST(error_of(tree.link(dir(root, "d"), root, "e", guest)) == EPERM);
  BOOST_REQUIRE(tree.unlink(root, "a", guest));
  BOOST_TEST(read(tree, a) == "content");
  int last = 0;
  for (int i = 2; i <= 65'001 && last == 0; ++i)
    last = error_of(tree.link(a, root, std::to_string(i), guest));
  BOOST_TEST(last == EMLINK);
  BOOST_TEST(tree.getattr(a)->nlink == 65'000u);
}

BOOST_AUTO_TEST_CASE(unlink_and_rmdir_know_what_they_remove) {
  file(root, "f");
  const Ino d = dir(root, "d");
  file(d, "inside");
  BOOST_TEST(tree.getattr(root)->nlink == 3u);
  BOOST_TEST(error_of(tree.unlink(root, "d", guest)) == EISDIR);
  BOOST_TEST(error_of(tree.rmdir(root, "f", guest)) == ENOTDIR);
  BOOST_TEST(error_of(tree.rmdir(root, "d", guest)) == ENOTEMPTY);
  BOOST_TEST(error_of(tree.unlink(root, "none", guest)) == ENOENT);
  BOOST_REQUIRE(tree.unlink(d, "inside", guest));
  BOOST_REQUIRE(tree.rmdir(root, "d", guest));
  BOOST_TEST(error_of(tree.getattr(d)) == ENOENT);
  BOOST_TEST(tree.getattr(root)->nlink == 2u);
}

BOOST_AUTO_TEST_CASE(what_is_held_outlives_its_last_name) {
  const Ino f = file(root, "f", "still here");
  const Ino d = dir(root, "d");
  tree.hold(f, 2);
  tree.hold(d);
  BOOST_REQUIRE(tree.unlink(root, "f", guest));
  BOOST_REQUIRE(tree.rmdir(root, "d", guest));
  BOOST_TEST(read(tree, f) == "still here");
  BOOST_TEST(tree.getattr(f)->nlink == 0u);
  BOOST_TEST(error_of(tree.create(d, "x", {.mode = 0644}, guest)) == ENOENT);
  BOOST_TEST(error_of(tree.link(f, root, "back", guest)) == ENOENT);
  tree.unhold(f);
  BOOST_TEST(error_of(tree.getattr(f)) == 0);
  tree.unhold(f, 100);  // more than is held: clamped
  tree.unhold(d);
  BOOST_TEST(error_of(tree.getattr(f)) == ENOENT);
  BOOST_TEST(tree.usage().inodes == 1u);
  BOOST_TEST(tree.usage().bytes == 0u);
}

BOOST_AUTO_TEST_CASE(an_unnamed_file_lives_while_it_is_held_or_gets_a_name) {
  const Attr made = tree.create_unnamed(root, 0640, guest).value();
  BOOST_TEST(made.nlink == 0u);
  BOOST_TEST(made.mode == 0640);
  BOOST_TEST(made.uid == 1000u);
  BOOST_TEST(names(tree, root).empty());
  write(made.ino, 0, "content");
  BOOST_TEST(error_of(tree.link(made.ino, root, "named", guest)) == 0);
  BOOST_TEST(tree.getattr(made.ino)->nlink == 1u);
  tree.unhold(made.ino);
  BOOST_TEST(read(tree, tree.lookup(root, "named")->ino) == "content");

  const Ino gone = tree.create_unnamed(root, 0640, guest).value().ino;
  BOOST_TEST(tree.usage().inodes == 3u);
  tree.unhold(gone);
  BOOST_TEST(error_of(tree.getattr(gone)) == ENOENT);
  BOOST_TEST(tree.usage().inodes == 2u);

  tree.hold(made.ino);  // a name that was lost is not given again
  BOOST_TEST(error_of(tree.unlink(root, "named", guest)) == 0);
  BOOST_TEST(error_of(tree.link(made.ino, root, "again", guest)) == ENOENT);
  BOOST_TEST(error_of(tree.create_unnamed(made.ino, 0600, guest)) == ENOTDIR);
  tree.unhold(made.ino);
  BOOST_TEST(tree.usage().inodes == 1u);
}

BOOST_AUTO_TEST_CASE(special_files_and_sockets_are_data) {
  for (const Type type : {Type::character, Type::block, Type::fifo, Type::socket}) {
    const std::string name = "n" + std::to_string(static_cast<int>(type));
    const Attr made = tree.create(root, name, {.type = type, .mode = 0600, .rdev = 0x12345}, guest).value();
    const bool device = type == Type::character || type == Type::block;
    BOOST_TEST((made.type == type));
    BOOST_TEST(made.rdev == (device ? 0x12345u : 0u));
    BOOST_TEST(made.blocks == 0u);
    BOOST_TEST(error_of(tree.setattr(made.ino, {.valid = SetAttr::kSize, .size = 1}, guest)) == EINVAL);
    BOOST_TEST(error_of(tree.link(made.ino, root, name + "-link", guest)) == 0);
    BOOST_TEST(error_of(tree.unlink(root, name, guest)) == 0);
  }
}

BOOST_AUTO_TEST_CASE(inode_numbers_are_never_used_again) {
  const Ino first = file(root, "f");
  BOOST_REQUIRE(tree.unlink(root, "f", guest));
  BOOST_TEST(file(root, "f") > first);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(budgets)

BOOST_AUTO_TEST_CASE(inodes_and_name_bytes_end_in_enospc_without_effect) {
  Fixture small({.inodes = 3, .name_bytes = 10});
  small.file(small.root, "1234");
  BOOST_TEST(error_of(small.tree.create(small.root, "1234567", {.mode = 0644}, small.guest)) == ENOSPC);
  BOOST_TEST(error_of(small.tree.rename(small.root, "1234", small.root, "12345678901", 0, small.guest)) ==
             ENOSPC);
  BOOST_TEST(error_of(small.tree.create(small.root, "l", {.type = Type::symlink, .target = "toolong"},
                                        small.guest)) == ENOSPC);
  small.file(small.root, "5");
  BOOST_TEST(error_of(small.tree.create(small.root, "6", {.mode = 0644}, small.guest)) == ENOSPC);
  BOOST_TEST(names(small.tree, small.root) == (std::vector<std::string>{"1234", "5"}),
             boost::test_tools::per_element());
  BOOST_TEST(error_of(small.tree.create_unnamed(small.root, 0600, small.guest)) == ENOSPC);
  BOOST_TEST(error_of(small.tree.rename(small.root, "1234", small.root, "n", Tree::kWhiteout, small.guest)) ==
             ENOSPC);
  BOOST_TEST(small.tree.usage().name_bytes == 5u);
  BOOST_REQUIRE(small.tree.unlink(small.root, "5", small.guest));
  small.file(small.root, "6");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::fs
