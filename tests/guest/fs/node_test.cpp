// Rules of node ids and of forgetting them.
#include "tests/guest/fs/cases.h"

namespace turnbox::fs_cases {

BOOST_FIXTURE_TEST_SUITE(node, Workspace)

BOOST_AUTO_TEST_CASE(node_id_zero_is_refused) {
  BOOST_TEST(peer.getattr(0).error == EINVAL);
  BOOST_TEST(peer.mkdir(0, "x").error == EINVAL);
  BOOST_TEST(peer.rename(dir, "a", 0, "b").error == EINVAL);
}

BOOST_AUTO_TEST_CASE(node_id_that_was_never_given_is_stale) {
  const uint64_t before = counter("unknown_nodes");
  for (const uint64_t id : {uint64_t{0xdead}, uint64_t{1} << 32, ~uint64_t{0}, dir + 1, dir - 1}) {
    BOOST_TEST(peer.getattr(id).error == ESTALE);
  }
  BOOST_TEST(peer.call(FUSE_LINK, dir, pack(fuse_link_in{0xdead}, "x")).error == ESTALE);
  BOOST_TEST(counter("unknown_nodes") == before + 6);
}

BOOST_AUTO_TEST_CASE(node_id_of_an_inode_that_exists_is_stale_until_it_is_looked_up) {
  const uint64_t made = node_of(peer.mkdir(dir, "a"));
  peer.init();  // a session that has looked nothing up
  BOOST_TEST(peer.getattr(made).error == ESTALE);
  BOOST_TEST(peer.getattr(dir).error == ESTALE);
  BOOST_TEST(peer.getattr(kRoot).error == 0);
}

BOOST_AUTO_TEST_CASE(forgotten_node_is_stale_and_comes_back_by_name) {
  const uint64_t made = node_of(peer.mkdir(dir, "a"));
  BOOST_TEST(node_of(peer.lookup(dir, "a")) == made);  // held twice now
  peer.forget(made, 1);
  BOOST_TEST(peer.getattr(made).error == 0);
  peer.forget(made, 1, FusePeer::kRequests);
  BOOST_TEST(peer.getattr(made).error == ESTALE);
  BOOST_TEST(node_of(peer.lookup(dir, "a")) == made);
}

BOOST_AUTO_TEST_CASE(forgetting_more_than_was_given_is_clamped_and_counted) {
  const uint64_t before = counter("forgets_clamped");
  const uint64_t made = node_of(peer.mkdir(dir, "a"));
  peer.forget(made, ~uint64_t{0});
  BOOST_TEST(peer.getattr(made).error == ESTALE);
  peer.forget(made, 1);
  peer.forget(0xdead, 1);
  BOOST_TEST(counter("forgets_clamped") == before + 3);
  BOOST_TEST(node_of(peer.lookup(dir, "a")) == made);
  BOOST_TEST(peer.getattr(made).error == 0);
}

BOOST_AUTO_TEST_CASE(root_cannot_be_forgotten) {
  peer.forget(kRoot, ~uint64_t{0});
  peer.forget(kRoot, 1);
  BOOST_TEST(peer.getattr(kRoot).error == 0);
}

BOOST_AUTO_TEST_CASE(batch_forget_of_more_than_it_carries_forgets_nothing) {
  const uint64_t made = node_of(peer.mkdir(dir, "a"));
  const fuse_forget_one one{.nodeid = made, .nlookup = 1};
  for (const uint32_t count : {2U, 0x10000001U, UINT32_MAX}) {
    const fuse_batch_forget_in in{.count = count, .dummy = 0};
    BOOST_TEST(peer.call(FUSE_BATCH_FORGET, 0, pack(in, one), 0).used == 0U);
    BOOST_TEST(peer.getattr(made).error == 0);
  }
  const fuse_batch_forget_in in{.count = 1, .dummy = 0};
  peer.send(peer.message(FUSE_BATCH_FORGET, 0, pack(in, one)), 0, FusePeer::kHiprio);
  BOOST_TEST(peer.getattr(made).error == ESTALE);
}

BOOST_AUTO_TEST_CASE(file_without_a_name_lives_until_it_is_forgotten) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  BOOST_TEST(peer.write(file, 0, 0, "still here").error == 0);
  BOOST_TEST(peer.unlink(dir, "a").error == 0);
  BOOST_TEST(read_all(file) == "still here");
  BOOST_TEST(peer.getattr(file).as<fuse_attr_out>().attr.nlink == 0U);
  peer.forget(file, 1);
  BOOST_TEST(peer.getattr(file).error == ESTALE);
}

BOOST_AUTO_TEST_CASE(kinds_are_checked) {
  const uint64_t file = node_of(peer.create(dir, "file"));
  BOOST_TEST(peer.lookup(file, "x").error == ENOTDIR);
  BOOST_TEST(peer.mkdir(file, "x").error == ENOTDIR);
  BOOST_TEST(peer.readdir(file, 0, 0, 4096).error == ENOTDIR);
  BOOST_TEST(peer.read(dir, 0, 0, 4096).error == EISDIR);
  BOOST_TEST(peer.write(dir, 0, 0, "x").error == EISDIR);
  BOOST_TEST(peer.call(FUSE_RMDIR, dir, pack("file")).error == ENOTDIR);
  peer.mkdir(dir, "sub");
  BOOST_TEST(peer.unlink(dir, "sub").error == EISDIR);
}

BOOST_AUTO_TEST_CASE(node_of_an_old_epoch_is_stale) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  BOOST_TEST(peer.write(file, 0, 0, "old").error == 0);
  host().new_epoch();
  count_epoch();
  BOOST_TEST(peer.getattr(file).error == ESTALE);
  BOOST_TEST(peer.read(file, 0, 0, 16).error == ESTALE);
  BOOST_TEST(peer.write(file, 0, 0, "new").error == ESTALE);
  BOOST_TEST(peer.mkdir(dir, "x").error == ESTALE);
  peer.forget(file, 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::fs_cases
