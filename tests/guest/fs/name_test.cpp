// Rules of names, and of the verbs that move them.
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "tests/guest/fs/cases.h"

namespace turnbox::fs_cases {

namespace {

sys::Bytes raw(std::string_view bytes) {
  const auto span = sys::as_bytes(bytes);
  return {span.begin(), span.end()};
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(name, Workspace)

BOOST_AUTO_TEST_CASE(name_without_its_nul_is_refused) {
  BOOST_TEST(peer.call(FUSE_LOOKUP, dir, raw("abc")).error == EINVAL);
  BOOST_TEST(peer.call(FUSE_LOOKUP, dir, {}).error == EINVAL);
  BOOST_TEST(peer.call(FUSE_RENAME, dir, pack(fuse_rename_in{dir}, "one", raw("two"))).error == EINVAL);
  BOOST_TEST(peer.call(FUSE_RENAME, dir, pack(fuse_rename_in{dir}, "one")).error == EINVAL);
}

BOOST_AUTO_TEST_CASE(bytes_behind_the_last_name_are_refused) {
  BOOST_TEST(peer.call(FUSE_LOOKUP, dir, pack("abc", "d")).error == EINVAL);
  BOOST_TEST(peer.call(FUSE_LOOKUP, dir, pack("abc", raw("d"))).error == EINVAL);
  BOOST_TEST(peer.call(FUSE_UNLINK, dir, pack("abc", raw(std::string_view("\0", 1)))).error == EINVAL);
  BOOST_TEST(peer.call(FUSE_SYMLINK, dir, pack("abc", "target", "more")).error == EINVAL);
}

BOOST_AUTO_TEST_CASE(empty_dotted_and_slashed_names_are_refused) {
  for (const char* bad : {"", ".", "..", "/", "a/b", "/a", "a/"}) {
    BOOST_TEST(peer.lookup(dir, bad).error == EINVAL);
    BOOST_TEST(peer.mkdir(dir, bad).error == EINVAL);
    BOOST_TEST(peer.create(dir, bad).error == EINVAL);
    BOOST_TEST(peer.rename(dir, "a", dir, bad).error == EINVAL);
    BOOST_TEST(peer.rename(dir, bad, dir, "a").error == EINVAL);
    BOOST_TEST(peer.call(FUSE_RMDIR, dir, pack(bad)).error == EINVAL);
    BOOST_TEST(peer.call(FUSE_LINK, dir, pack(fuse_link_in{dir}, bad)).error == EINVAL);
    BOOST_TEST(peer.call(FUSE_SYMLINK, dir, pack(bad, "target")).error == EINVAL);
  }
}

BOOST_AUTO_TEST_CASE(names_of_255_bytes_go_and_longer_ones_do_not) {
  BOOST_TEST(peer.mkdir(dir, std::string(255, 'n')).error == 0);
  BOOST_TEST(peer.mkdir(dir, std::string(256, 'n')).error == ENAMETOOLONG);
  BOOST_TEST(peer.lookup(dir, std::string(20'000, 'n')).error == ENAMETOOLONG);
}

BOOST_AUTO_TEST_CASE(any_other_byte_goes) {
  const std::string odd = "\xff\xfe\n\t\x01 \xc3\x28";
  BOOST_TEST(peer.mkdir(dir, odd).error == 0);
  BOOST_TEST(node_of(peer.lookup(dir, odd)) != 0U);
}

BOOST_AUTO_TEST_CASE(symlink_targets_are_1_to_4095_bytes) {
  BOOST_TEST(peer.call(FUSE_SYMLINK, dir, pack("none", "")).error == ENOENT);
  BOOST_TEST(peer.call(FUSE_SYMLINK, dir, pack("long", std::string(4096, 't'))).error == ENAMETOOLONG);
  const std::string target(4095, 't');
  const FuseReply made = peer.call(FUSE_SYMLINK, dir, pack("full", target));
  BOOST_REQUIRE_EQUAL(made.error, 0);
  BOOST_TEST(peer.call(FUSE_READLINK, node_of(made), {}).text() == target);
  BOOST_TEST(peer.call(FUSE_READLINK, node_of(made), {}, 16 + 100).error == EINVAL);
  BOOST_TEST(peer.call(FUSE_READLINK, dir, {}).error == EINVAL);
}

BOOST_AUTO_TEST_CASE(rename_takes_only_flags_that_make_sense) {
  peer.mkdir(dir, "a");
  peer.mkdir(dir, "b");
  const auto rename2 = [&](uint32_t flags) {
    return peer.call(FUSE_RENAME2, dir, pack(fuse_rename2_in{.newdir = dir, .flags = flags, .padding = 0}, "a", "b"))
        .error;
  };
  BOOST_TEST(rename2(RENAME_NOREPLACE) == EEXIST);
  BOOST_TEST(rename2(RENAME_NOREPLACE | RENAME_EXCHANGE) == EINVAL);
  BOOST_TEST(rename2(RENAME_WHITEOUT | RENAME_EXCHANGE) == EINVAL);
  BOOST_TEST(rename2(RENAME_WHITEOUT | RENAME_NOREPLACE) == EEXIST);
  BOOST_TEST(rename2(8) == EINVAL);
  BOOST_TEST(rename2(UINT32_MAX) == EINVAL);
  const uint64_t a = node_of(peer.lookup(dir, "a"));
  BOOST_TEST(rename2(RENAME_EXCHANGE) == 0);
  BOOST_TEST(node_of(peer.lookup(dir, "b")) == a);
}

BOOST_AUTO_TEST_CASE(whiteout_leaves_a_character_device_0_0) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  BOOST_TEST(peer.rename(dir, "a", dir, "b", RENAME_WHITEOUT).error == 0);
  BOOST_TEST(node_of(peer.lookup(dir, "b")) == file);
  const auto left = peer.lookup(dir, "a").as<fuse_entry_out>().attr;
  BOOST_TEST(left.mode == S_IFCHR);
  BOOST_TEST(left.rdev == 0U);
}

BOOST_AUTO_TEST_CASE(every_special_file_is_made_as_data_and_a_directory_is_not_one) {
  for (const uint32_t type : {S_IFREG, S_IFCHR, S_IFBLK, S_IFIFO, S_IFSOCK}) {
    const fuse_mknod_in in{.mode = type | 0640, .rdev = 0, .umask = 0, .padding = 0};
    const FuseReply made = peer.call(FUSE_MKNOD, dir, pack(in, "n" + std::to_string(type)));
    BOOST_TEST(made.as<fuse_entry_out>().attr.mode == (type | 0640));
  }
  for (const uint32_t type : {uint32_t{S_IFDIR}, uint32_t{S_IFLNK}, uint32_t{S_IFMT}}) {
    const fuse_mknod_in in{.mode = type | 0640, .rdev = 0, .umask = 0, .padding = 0};
    BOOST_TEST(peer.call(FUSE_MKNOD, dir, pack(in, "not")).error == EINVAL);
  }
}

BOOST_AUTO_TEST_CASE(directory_does_not_move_into_itself) {
  const uint64_t outer = node_of(peer.mkdir(dir, "outer"));
  const uint64_t inner = node_of(peer.mkdir(outer, "inner"));
  BOOST_TEST(peer.rename(dir, "outer", inner, "x").error == EINVAL);
  BOOST_TEST(peer.rename(dir, "outer", outer, "x").error == EINVAL);
  BOOST_TEST(peer.rename(outer, "inner", dir, "outer").error == ENOTEMPTY);
  BOOST_TEST(peer.rename(dir, "outer", 0xdead, "x").error == ESTALE);
  BOOST_TEST(node_of(peer.lookup(outer, "inner")) == inner);
}

BOOST_AUTO_TEST_CASE(device_nodes_are_data) {
  const fuse_mknod_in in{.mode = S_IFCHR | 0600, .rdev = 0x103, .umask = 0, .padding = 0};  // 1:3
  const FuseReply made = peer.call(FUSE_MKNOD, dir, pack(in, "null"));
  BOOST_REQUIRE_EQUAL(made.error, 0);
  BOOST_TEST(made.as<fuse_entry_out>().attr.mode == (S_IFCHR | 0600U));
  BOOST_TEST(made.as<fuse_entry_out>().attr.rdev == 0x103U);
  BOOST_TEST(peer.read(node_of(made), 0, 0, 16).error != 0);
  BOOST_TEST(peer.write(node_of(made), 0, 0, "x").error != 0);
  for (const uint32_t type : {S_IFDIR, S_IFLNK, S_IFMT, 0x3000}) {
    const fuse_mknod_in bad{.mode = type | 0600, .rdev = 0, .umask = 0, .padding = 0};
    BOOST_TEST(peer.call(FUSE_MKNOD, dir, pack(bad, "bad")).error == EINVAL);
  }
}

BOOST_AUTO_TEST_CASE(missing_names_are_remembered_with_a_time_out) {
  const FuseReply reply = peer.lookup(dir, "missing");
  BOOST_TEST(reply.error == 0);
  BOOST_TEST(node_of(reply) == 0U);
  BOOST_TEST(reply.as<fuse_entry_out>().entry_valid > 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::fs_cases
