// Was: chown(2) with -1 for both ids, which reaches a server as a SETATTR of nothing, did nothing. On tmpfs
// it moves ctime, and a file loses suid and sgid as with any chown.
#include "tests/guest/fs/cases.h"

namespace turnbox::fs_cases {
namespace {

fuse_attr attr_of(const FuseReply& reply) {
  return reply.as<fuse_attr_out>().attr;
}
auto ctime_of(const fuse_attr& attr) {
  return std::pair(attr.ctime, attr.ctimensec);
}

BOOST_FIXTURE_TEST_CASE(chown_of_nobody_ends_suid, Workspace) {
  const uint64_t file = node_of(peer.create(dir, "file", 2, 0106755));
  const fuse_attr before = attr_of(peer.getattr(file));
  BOOST_REQUIRE_EQUAL(before.mode, 0106755U);
  const fuse_attr after = attr_of(peer.setattr(file, {}));
  BOOST_TEST(after.mode == 0100755U);
  BOOST_TEST((ctime_of(after) > ctime_of(before)));
}

BOOST_FIXTURE_TEST_CASE(chown_of_nobody_ends_no_suid_of_anothers_file, Workspace) {
  const uint64_t file = node_of(peer.create(dir, "file", 2, 0104755));
  peer.uid = 1000;
  const FuseReply passed = peer.setattr(file, {});  // also what comes before a write of theirs
  peer.uid = 0;
  BOOST_TEST(passed.error == 0);
  BOOST_TEST(attr_of(peer.getattr(file)).mode == 0104755U);
}

BOOST_FIXTURE_TEST_CASE(chown_of_nobody_leaves_sgid_of_a_directory, Workspace) {
  const uint64_t below = node_of(peer.mkdir(dir, "below", 02755));
  const fuse_attr before = attr_of(peer.getattr(below));
  const fuse_attr after = attr_of(peer.setattr(below, {}));
  BOOST_TEST(after.mode == before.mode);
  BOOST_TEST((ctime_of(after) > ctime_of(before)));
}

}  // namespace
}  // namespace turnbox::fs_cases
