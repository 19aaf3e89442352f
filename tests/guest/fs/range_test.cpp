// Rules of FALLOCATE, COPY_FILE_RANGE and TMPFILE, on both devices.
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/guest/fs/cases.h"

namespace turnbox::fs_cases {

namespace {

fuse_fallocate_in range(uint64_t offset, uint64_t length, uint32_t mode = 0, uint64_t handle = 0) {
  return {.fh = handle, .offset = offset, .length = length, .mode = mode, .padding = 0};
}

struct Copy {
  uint64_t from, to;
  uint64_t from_offset = 0, to_offset = 0, size = 1 << 20;
  uint64_t from_handle = 0, to_handle = 0, flags = 0;
};

FuseReply copy(FusePeer& peer, const Copy& what) {
  const fuse_copy_file_range_in in{.fh_in = what.from_handle,
                                   .off_in = what.from_offset,
                                   .nodeid_out = what.to,
                                   .fh_out = what.to_handle,
                                   .off_out = what.to_offset,
                                   .len = what.size,
                                   .flags = what.flags};
  return peer.call(FUSE_COPY_FILE_RANGE, what.from, pack(in));
}

fuse_attr attr_of(FusePeer& peer, uint64_t node) { return peer.getattr(node).as<fuse_attr_out>().attr; }

FuseReply tmpfile(FusePeer& peer, uint64_t dir, uint32_t flags = O_RDWR, uint32_t mode = S_IFREG | 0600) {
  const fuse_create_in in{.flags = flags, .mode = mode, .umask = 0, .open_flags = 0};
  return peer.call(FUSE_TMPFILE, dir, pack(in, "/"));
}

uint64_t held_bytes(FusePeer& peer) {
  const auto st = peer.call(FUSE_STATFS, kRoot, {}).as<fuse_statfs_out>().st;
  return (st.blocks - st.bfree) * st.frsize;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(fallocate, Workspace)

BOOST_AUTO_TEST_CASE(modes_are_those_of_linux) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  BOOST_TEST(peer.call(FUSE_FALLOCATE, file, pack(range(0, 10'000))).error == 0);
  BOOST_TEST(attr_of(peer, file).size == 10'000U);
  BOOST_TEST(attr_of(peer, file).blocks == 24U);
  BOOST_TEST(peer.call(FUSE_FALLOCATE, file, pack(range(0, 50'000, FALLOC_FL_KEEP_SIZE))).error == 0);
  BOOST_TEST(attr_of(peer, file).size == 10'000U);
  BOOST_TEST(attr_of(peer, file).blocks == 13U * 8);
  peer.write(file, 0, 0, std::string(10'000, 'x'));
  BOOST_TEST(peer.call(FUSE_FALLOCATE, file, pack(range(1, 8'000, FALLOC_FL_ZERO_RANGE))).error == 0);
  BOOST_TEST(read_all(file) == "x" + std::string(8'000, '\0') + std::string(1'999, 'x'));
  const uint32_t punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  BOOST_TEST(peer.call(FUSE_FALLOCATE, file, pack(range(0, INT64_MAX, punch))).error == 0);
  BOOST_TEST(attr_of(peer, file).size == 10'000U);
  BOOST_TEST(attr_of(peer, file).blocks == 0U);
}

BOOST_AUTO_TEST_CASE(other_modes_and_bad_ranges_are_refused) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  for (const uint32_t mode : {2U, 4U, 8U, 9U, 18U, 19U, 32U, 64U, UINT32_MAX}) {
    BOOST_TEST(peer.call(FUSE_FALLOCATE, file, pack(range(0, 1, mode))).error == EOPNOTSUPP);
  }
  BOOST_TEST(peer.call(FUSE_FALLOCATE, file, pack(range(0, 0))).error == EINVAL);
  for (const uint64_t offset : {uint64_t{INT64_MAX}, uint64_t{1} << 63, ~uint64_t{0}}) {
    BOOST_TEST(peer.call(FUSE_FALLOCATE, file, pack(range(offset, 2))).error == EFBIG);
    BOOST_TEST(peer.call(FUSE_FALLOCATE, file, pack(range(2, offset))).error == EFBIG);
  }
  BOOST_TEST(peer.call(FUSE_FALLOCATE, dir, pack(range(0, 1))).error == EISDIR);
  BOOST_TEST(peer.call(FUSE_FALLOCATE, 0xdead, pack(range(0, 1))).error == ESTALE);
  BOOST_TEST(attr_of(peer, file).size == 0U);
}

BOOST_AUTO_TEST_CASE(more_than_the_budget_is_enospc_and_takes_nothing) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  const uint64_t before = held_bytes(peer);
  for (const uint64_t size : {uint64_t{1} << 40, uint64_t{1} << 62}) {
    BOOST_TEST(peer.call(FUSE_FALLOCATE, file, pack(range(0, size))).error == ENOSPC);
  }
  BOOST_TEST(held_bytes(peer) == before);
  BOOST_TEST(attr_of(peer, file).size == 0U);
}

BOOST_AUTO_TEST_CASE(blocks_and_statfs_agree_and_freeing_gives_back) {
  const uint64_t before = held_bytes(peer);
  const uint64_t file = node_of(peer.create(dir, "a"));
  BOOST_TEST(peer.call(FUSE_FALLOCATE, file, pack(range(0, 1 << 20))).error == 0);
  BOOST_TEST(held_bytes(peer) - before == attr_of(peer, file).blocks * 512);
  BOOST_TEST(peer.unlink(dir, "a").error == 0);
  peer.forget(file, 1);
  peer.getattr(dir);
  BOOST_TEST(held_bytes(peer) == before);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(copy_file_range, Workspace)

BOOST_AUTO_TEST_CASE(a_copy_shares_its_pages) {
  const uint64_t a = node_of(peer.create(dir, "a")), b = node_of(peer.create(dir, "b"));
  const std::string content(100'001, 'c');
  for (size_t at = 0; at < content.size(); at += 4'000) peer.write(a, 0, at, content.substr(at, 4'000));
  const uint64_t before = held_bytes(peer);
  BOOST_TEST(copy(peer, {.from = a, .to = b}).as<fuse_write_out>().size == content.size());
  BOOST_TEST(held_bytes(peer) == before);
  BOOST_TEST(read_all(b) == content);
  peer.write(b, 0, 0, "changed");
  BOOST_TEST(read_all(a) == content);
  BOOST_TEST(copy(peer, {.from = a, .to = b, .from_offset = 100'001}).as<fuse_write_out>().size == 0U);
}

BOOST_AUTO_TEST_CASE(overlap_in_one_file_wrap_and_flags_are_refused) {
  const uint64_t a = node_of(peer.create(dir, "a")), b = node_of(peer.create(dir, "b"));
  peer.write(a, 0, 0, std::string(8'000, 'a'));
  BOOST_TEST(copy(peer, {.from = a, .to = a, .to_offset = 10, .size = 11}).error == EINVAL);
  BOOST_TEST(copy(peer, {.from = a, .to = a, .to_offset = 10, .size = 10}).error == 0);
  BOOST_TEST(copy(peer, {.from = a, .to = b, .from_offset = ~uint64_t{0}, .size = 2}).error == EOVERFLOW);
  BOOST_TEST(copy(peer, {.from = a, .to = b, .to_offset = INT64_MAX, .size = 2}).error == EFBIG);
  for (const uint64_t flags : {uint64_t{1}, uint64_t{1} << 63}) {
    BOOST_TEST(copy(peer, {.from = a, .to = b, .flags = flags}).error == EINVAL);
  }
  BOOST_TEST(copy(peer, {.from = a, .to = 0xdead}).error == ESTALE);
  BOOST_TEST(copy(peer, {.from = 0xdead, .to = a}).error == ESTALE);
  BOOST_TEST(copy(peer, {.from = dir, .to = a}).error == EISDIR);
  BOOST_TEST(copy(peer, {.from = a, .to = dir}).error == EISDIR);
  BOOST_TEST(attr_of(peer, b).size == 0U);
}

BOOST_AUTO_TEST_CASE(a_length_beyond_everything_copies_what_is_there) {
  const uint64_t a = node_of(peer.create(dir, "a")), b = node_of(peer.create(dir, "b"));
  peer.write(a, 0, 0, "content");
  BOOST_TEST(copy(peer, {.from = a, .to = b, .size = ~uint64_t{0}}).as<fuse_write_out>().size == 7U);
  BOOST_TEST(read_all(b) == "content");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(unnamed, Workspace)

BOOST_AUTO_TEST_CASE(a_file_without_a_name_can_be_linked_and_else_is_gone_with_its_last_lookup) {
  const FuseReply made = tmpfile(peer, dir);
  BOOST_REQUIRE_EQUAL(made.error, 0);
  const uint64_t file = node_of(made);
  BOOST_TEST(made.as<fuse_entry_out>().attr.nlink == 0U);
  BOOST_TEST(peer.write(file, 0, 0, "content").error == 0);
  const FuseReply linked = peer.call(FUSE_LINK, dir, pack(fuse_link_in{file}, "named"));
  BOOST_TEST(node_of(linked) == file);
  BOOST_TEST(linked.as<fuse_entry_out>().attr.nlink == 1U);
  BOOST_TEST(read_all(node_of(peer.lookup(dir, "named"))) == "content");

  const uint64_t gone = node_of(tmpfile(peer, dir));
  const auto before = peer.call(FUSE_STATFS, kRoot, {}).as<fuse_statfs_out>().st.ffree;
  peer.forget(gone, 1);
  BOOST_TEST(peer.getattr(gone).error == ESTALE);
  BOOST_TEST(peer.call(FUSE_STATFS, kRoot, {}).as<fuse_statfs_out>().st.ffree == before + 1);
}

BOOST_AUTO_TEST_CASE(a_name_that_was_lost_is_not_given_again) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  peer.unlink(dir, "a");
  BOOST_TEST(peer.call(FUSE_LINK, dir, pack(fuse_link_in{file}, "again")).error == ENOENT);
}

BOOST_AUTO_TEST_CASE(only_regular_files_opened_for_writing) {
  BOOST_TEST(tmpfile(peer, dir, O_RDONLY).error == EINVAL);
  BOOST_TEST(tmpfile(peer, dir, O_ACCMODE).error == EINVAL);
  BOOST_TEST(tmpfile(peer, dir, O_RDWR, S_IFDIR | 0700).error == EINVAL);
  const uint64_t file = node_of(peer.create(dir, "a"));
  BOOST_TEST(tmpfile(peer, file).error == ENOTDIR);
  BOOST_TEST(tmpfile(peer, 0xdead).error == ESTALE);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(ranges_of_a_turn, Turn)

BOOST_AUTO_TEST_CASE(handles_are_checked) {
  const FuseReply one = peer.create(outputs(), "range-1"), two = peer.create(outputs(), "range-2");
  const uint64_t a = node_of(one), b = node_of(two), fa = open_of(one).fh, fb = open_of(two).fh;
  const uint64_t reader = peer.open(a, O_RDONLY).as<fuse_open_out>().fh;
  const uint64_t writer = peer.open(a, O_WRONLY).as<fuse_open_out>().fh;
  const auto allocate = [&](uint64_t handle) { return peer.call(FUSE_FALLOCATE, a, pack(range(0, 5, 0, handle))).error; };
  BOOST_TEST(allocate(fa) == 0);
  BOOST_TEST(allocate(0) == EBADF);
  BOOST_TEST(allocate(fb) == EBADF);
  BOOST_TEST(allocate(reader) == EBADF);
  const auto moved = [&](uint64_t from, uint64_t to) {
    return copy(peer, {.from = a, .to = b, .from_handle = from, .to_handle = to}).error;
  };
  BOOST_TEST(moved(fa, fb) == 0);
  BOOST_TEST(moved(reader, fb) == 0);
  BOOST_TEST(moved(writer, fb) == EBADF);
  BOOST_TEST(moved(fb, fb) == EBADF);
  BOOST_TEST(moved(fa, fa) == EBADF);
  BOOST_TEST(moved(fa, 0) == EBADF);
}

BOOST_AUTO_TEST_CASE(an_event_log_takes_no_ranges_and_no_truncation) {
  const uint64_t log = events();
  const uint64_t handle = peer.open(log, O_WRONLY | O_APPEND).as<fuse_open_out>().fh;
  BOOST_TEST(peer.call(FUSE_FALLOCATE, log, pack(range(0, 100, 0, handle))).error == EPERM);
  const FuseReply made = peer.create(outputs(), "range-3");
  peer.write(node_of(made), open_of(made).fh, 0, "no event");
  BOOST_TEST(copy(peer, {.from = node_of(made), .to = log, .from_handle = open_of(made).fh, .to_handle = handle}).error ==
             EPERM);
}

BOOST_AUTO_TEST_CASE(an_unnamed_file_has_a_handle_and_a_sealed_directory_takes_none) {
  const FuseReply made = tmpfile(peer, outputs());
  BOOST_REQUIRE_EQUAL(made.error, 0);
  const uint64_t file = node_of(made), handle = open_of(made).fh;
  BOOST_TEST(peer.write(file, handle, 0, "kept").error == 0);
  BOOST_TEST(peer.read(file, handle, 0, 16).text() == "kept");
  BOOST_TEST(peer.release(file, handle).error == 0);
  BOOST_TEST(peer.write(file, handle, 0, "x").error == EBADF);
  BOOST_TEST(tmpfile(peer, kRoot).error == EROFS);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::fs_cases
