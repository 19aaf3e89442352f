// Rules of extended attributes.
#include <sys/xattr.h>

#include "tests/guest/fs/cases.h"

namespace turnbox::fs_cases {

namespace {

struct SetIn {
  uint32_t size, flags;
};

FuseReply set(FusePeer& peer, uint64_t node, const std::string& name, const std::string& value, uint32_t flags = 0) {
  const auto bytes = sys::as_bytes(value);
  return peer.call(FUSE_SETXATTR, node,
                   pack(SetIn{static_cast<uint32_t>(value.size()), flags}, name, sys::Bytes(bytes.begin(), bytes.end())));
}
FuseReply get(FusePeer& peer, uint64_t node, const std::string& name, uint32_t size, size_t room = 70'000) {
  return peer.call(FUSE_GETXATTR, node, pack(fuse_getxattr_in{.size = size, .padding = 0}, name), room);
}
FuseReply list(FusePeer& peer, uint64_t node, uint32_t size, size_t room = 70'000) {
  return peer.call(FUSE_LISTXATTR, node, pack(fuse_getxattr_in{.size = size, .padding = 0}), room);
}
FuseReply remove(FusePeer& peer, uint64_t node, const std::string& name) {
  return peer.call(FUSE_REMOVEXATTR, node, pack(name));
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(xattr, Workspace)

BOOST_AUTO_TEST_CASE(values_come_back_as_they_were_set) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  const std::string bytes("a\0b\xff", 4);
  BOOST_TEST(set(peer, file, "user.x", bytes).error == 0);
  BOOST_TEST(set(peer, file, "trusted.overlay.opaque", "y").error == 0);
  BOOST_TEST(set(peer, file, "security.empty", "").error == 0);
  BOOST_TEST(get(peer, file, "user.x", 100).text() == bytes);
  BOOST_TEST(get(peer, file, "security.empty", 100).body.empty());
  BOOST_TEST(list(peer, file, 100).text() == std::string("security.empty\0trusted.overlay.opaque\0user.x\0", 45));
  BOOST_TEST(remove(peer, file, "user.x").error == 0);
  BOOST_TEST(remove(peer, file, "user.x").error == ENODATA);
  BOOST_TEST(get(peer, file, "user.x", 100).error == ENODATA);
  BOOST_TEST(set(peer, dir, "user.of-a-directory", "v").error == 0);
}

BOOST_AUTO_TEST_CASE(names_of_trusted_are_shown_to_root_only) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  set(peer, file, "trusted.x", "1");
  set(peer, file, "user.y", "1");
  peer.uid = 1000;
  BOOST_TEST(list(peer, file, 100).text() == std::string("user.y\0", 7));
  peer.uid = 0;
  BOOST_TEST(list(peer, file, 100).body.size() == 17U);
}

BOOST_AUTO_TEST_CASE(size_0_asks_and_a_size_too_small_is_told) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  set(peer, file, "user.x", "12345");
  BOOST_TEST(get(peer, file, "user.x", 0).as<fuse_getxattr_out>().size == 5U);
  BOOST_TEST(get(peer, file, "user.x", 4).error == ERANGE);
  BOOST_TEST(get(peer, file, "user.x", 5).text() == "12345");
  BOOST_TEST(list(peer, file, 0).as<fuse_getxattr_out>().size == 7U);
  BOOST_TEST(list(peer, file, 6).error == ERANGE);
  BOOST_TEST(list(peer, file, 7).body.size() == 7U);
  BOOST_TEST(list(peer, dir, 0).as<fuse_getxattr_out>().size == 0U);
  BOOST_TEST(list(peer, dir, 1).error == 0);
}

BOOST_AUTO_TEST_CASE(answer_larger_than_its_room_is_refused) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  set(peer, file, "user.x", "12345");
  BOOST_TEST(get(peer, file, "user.x", 64, 16 + 63).error == EINVAL);
  BOOST_TEST(get(peer, file, "user.x", UINT32_MAX, 16 + 64).error == EINVAL);
  BOOST_TEST(get(peer, file, "user.x", 0, 16 + 7).error == EINVAL);
  BOOST_TEST(list(peer, file, 65, 16 + 64).error == EINVAL);
}

BOOST_AUTO_TEST_CASE(size_other_than_the_value_is_refused) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  for (const uint32_t claimed : {0U, 4U, 6U, 65'537U, UINT32_MAX}) {
    BOOST_TEST(peer.call(FUSE_SETXATTR, file, pack(SetIn{claimed, 0}, "user.x", sys::Bytes(5))).error == EINVAL);
  }
  BOOST_TEST(get(peer, file, "user.x", 100).error == ENODATA);
}

BOOST_AUTO_TEST_CASE(value_of_64_kib_goes_and_a_byte_more_does_not) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  const std::string largest(65'536, 'v');
  BOOST_TEST(set(peer, file, "user.x", largest).error == 0);
  BOOST_TEST(get(peer, file, "user.x", 65'536).text() == largest);
  BOOST_TEST(set(peer, file, "user.x", largest + "v").error == E2BIG);
  BOOST_TEST(get(peer, file, "user.x", 0).as<fuse_getxattr_out>().size == 65'536U);
}

BOOST_AUTO_TEST_CASE(flags_are_create_or_replace) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  BOOST_TEST(set(peer, file, "user.x", "1", XATTR_REPLACE).error == ENODATA);
  BOOST_TEST(set(peer, file, "user.x", "1", XATTR_CREATE).error == 0);
  BOOST_TEST(set(peer, file, "user.x", "2", XATTR_CREATE).error == EEXIST);
  BOOST_TEST(set(peer, file, "user.x", "3", XATTR_REPLACE).error == 0);
  constexpr uint32_t kBoth = XATTR_CREATE | XATTR_REPLACE;
  BOOST_TEST(set(peer, file, "user.x", "4", kBoth).error == EEXIST);
  BOOST_TEST(set(peer, file, "user.y", "4", kBoth).error == ENODATA);
  for (const uint32_t flags : {4U, UINT32_MAX}) BOOST_TEST(set(peer, file, "user.x", "4", flags).error == EINVAL);
  BOOST_TEST(get(peer, file, "user.x", 9).text() == "3");
}

BOOST_AUTO_TEST_CASE(names_have_a_known_prefix_and_at_most_255_bytes) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  for (const char* name : {"system.posix_acl_access", "system.posix_acl_default", "os2.x", "user"}) {
    BOOST_TEST(set(peer, file, name, "v").error == EOPNOTSUPP);
    BOOST_TEST(get(peer, file, name, 100).error == EOPNOTSUPP);
    BOOST_TEST(remove(peer, file, name).error == EOPNOTSUPP);
  }
  BOOST_TEST(set(peer, file, "", "v").error == EINVAL);
  BOOST_TEST(set(peer, file, "user.", "v").error == EINVAL);
  BOOST_TEST(set(peer, file, "user." + std::string(250, 'n'), "v").error == 0);
  for (const size_t length : {size_t{251}, size_t{252}, size_t{5000}}) {
    const std::string name = "user." + std::string(length, 'n');
    BOOST_TEST(set(peer, file, name, "v").error == ERANGE);
    BOOST_TEST(get(peer, file, name, 10).error == ERANGE);
    BOOST_TEST(remove(peer, file, name).error == ERANGE);
  }
}

BOOST_AUTO_TEST_CASE(names_end_with_nul_inside_the_message_and_nothing_follows) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  const sys::Bytes open_end(7, std::byte{'u'});
  BOOST_TEST(peer.call(FUSE_REMOVEXATTR, file, open_end).error == EINVAL);
  BOOST_TEST(peer.call(FUSE_REMOVEXATTR, file, {}).error == EINVAL);
  BOOST_TEST(peer.call(FUSE_REMOVEXATTR, file, pack("user.x", "more")).error == EINVAL);
  BOOST_TEST(peer.call(FUSE_GETXATTR, file, pack(fuse_getxattr_in{}, open_end)).error == EINVAL);
  BOOST_TEST(peer.call(FUSE_GETXATTR, file, pack(fuse_getxattr_in{}, "user.x", std::byte{1})).error == EINVAL);
  BOOST_TEST(peer.call(FUSE_SETXATTR, file, pack(SetIn{0, 0}, open_end)).error == EINVAL);
  BOOST_TEST(peer.call(FUSE_LISTXATTR, file, pack(fuse_getxattr_in{}, "user.x")).error == EINVAL);
}

BOOST_AUTO_TEST_CASE(one_node_holds_a_bounded_amount) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  const std::string value(65'000, 'v');
  int error = 0, held = 0;
  for (; held < 100 && error == 0; ++held) error = set(peer, file, "user." + std::to_string(held), value).error;
  BOOST_TEST(error == ENOSPC);
  BOOST_TEST(held == 17);  // sixteen are a MiB
  const uint64_t other = node_of(peer.create(dir, "b"));
  error = 0;
  for (held = 0; held < 2000 && error == 0; ++held) error = set(peer, other, "user." + std::to_string(held), "").error;
  BOOST_TEST(error == ENOSPC);
  BOOST_TEST(list(peer, other, 65'536).error == 0);  // what is held can always be listed
}

BOOST_AUTO_TEST_CASE(the_capability_goes_with_suid) {
  const uint64_t file = node_of(peer.create(dir, "a", 2, 0106755));
  set(peer, file, "security.capability", "caps");
  peer.write(file, 0, 0, "x");
  BOOST_TEST(get(peer, file, "security.capability", 100).text() == "caps");
  peer.write(file, 0, 0, "x", FUSE_WRITE_KILL_SUIDGID);
  BOOST_TEST(get(peer, file, "security.capability", 100).error == ENODATA);
}

BOOST_AUTO_TEST_CASE(unknown_nodes_have_none) {
  for (const uint64_t node : {uint64_t{0}, uint64_t{0xdead}}) {
    const int expected = node == 0 ? EINVAL : ESTALE;
    BOOST_TEST(set(peer, node, "user.x", "v").error == expected);
    BOOST_TEST(get(peer, node, "user.x", 10).error == expected);
    BOOST_TEST(list(peer, node, 10).error == expected);
    BOOST_TEST(remove(peer, node, "user.x").error == expected);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::fs_cases
