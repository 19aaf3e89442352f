// Rules of sizes, offsets, attributes and budgets.
#include <sys/stat.h>

#include "tests/guest/fs/cases.h"

namespace turnbox::fs_cases {

namespace {

constexpr uint64_t kMax = INT64_MAX;

fuse_write_in write_at(uint64_t offset, uint32_t size) {
  fuse_write_in in{};
  in.offset = offset;
  in.size = size;
  return in;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(size, Workspace)

BOOST_AUTO_TEST_CASE(write_size_other_than_its_payload_is_refused) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  for (const uint32_t claimed : {0U, 4U, 6U, 0x7fffffffU, UINT32_MAX}) {
    BOOST_TEST(peer.call(FUSE_WRITE, file, pack(write_at(0, claimed), sys::Bytes(5))).error == EINVAL);
  }
  BOOST_TEST(peer.getattr(file).as<fuse_attr_out>().attr.size == 0U);
}

BOOST_AUTO_TEST_CASE(write_of_a_mebibyte_goes_and_a_byte_more_does_not) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  constexpr uint32_t kMiB = 1 << 20;
  BOOST_TEST(peer.call(FUSE_WRITE, file, pack(write_at(0, kMiB), sys::Bytes(kMiB))).error == 0);
  BOOST_TEST(peer.call(FUSE_WRITE, file, pack(write_at(0, kMiB + 1), sys::Bytes(kMiB + 1))).error == EINVAL);
  BOOST_TEST(peer.getattr(file).as<fuse_attr_out>().attr.size == kMiB);
}

BOOST_AUTO_TEST_CASE(write_that_ends_past_2_63_is_too_big) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  for (const uint64_t offset : {kMax, kMax - 4, uint64_t{1} << 63, ~uint64_t{0} - 2, ~uint64_t{0}}) {
    BOOST_TEST(peer.write(file, 0, offset, "12345").error == EFBIG);
  }
  BOOST_TEST(peer.getattr(file).as<fuse_attr_out>().attr.blocks == 0U);
}

BOOST_AUTO_TEST_CASE(write_with_unknown_flags_is_refused) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  BOOST_TEST(peer.write(file, 0, 0, "x", 8).error == EINVAL);
  BOOST_TEST(peer.write(file, 0, 0, "x", FUSE_WRITE_CACHE | FUSE_WRITE_KILL_SUIDGID).error == 0);
}

BOOST_AUTO_TEST_CASE(read_larger_than_its_room_is_refused) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  peer.write(file, 0, 0, "content");
  fuse_read_in in{};
  for (const uint32_t size : {65U, 4096U, UINT32_MAX}) {
    in.size = size;
    BOOST_TEST(peer.call(FUSE_READ, file, pack(in), 16 + 64).error == EINVAL);
  }
  in.size = 64;
  BOOST_TEST(peer.call(FUSE_READ, file, pack(in), 16 + 64).text() == "content");
  in.size = (1 << 20) + 1;
  BOOST_TEST(peer.call(FUSE_READ, file, pack(in), 16 + in.size).error == EINVAL);
}

BOOST_AUTO_TEST_CASE(read_past_the_end_is_empty_at_any_offset) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  peer.write(file, 0, 0, "content");
  BOOST_TEST(peer.read(file, 0, 7, 64).body.empty());
  const FuseReply far = peer.read(file, 0, kMax, 64);
  BOOST_TEST((far.error == 0 && far.body.empty()));
  BOOST_TEST(peer.read(file, 0, uint64_t{1} << 63, 64).error == EINVAL);
}

BOOST_AUTO_TEST_CASE(listing_larger_than_its_room_is_refused_and_one_too_small_for_an_entry_too) {
  fuse_read_in in{};
  in.size = 4097;
  BOOST_TEST(peer.call(FUSE_READDIR, dir, pack(in), 16 + 4096).error == EINVAL);
  BOOST_TEST(peer.readdir(dir, 0, 0, 24).error == EINVAL);
  BOOST_TEST(peer.readdir(dir, 0, 0, 0).error == EINVAL);
  BOOST_TEST(peer.readdir(dir, 0, 0, 32).error == 0);
}

BOOST_AUTO_TEST_CASE(listing_from_a_cookie_that_was_never_given_ends_safely) {
  for (int i = 0; i < 20; ++i) peer.mkdir(dir, "d" + std::to_string(i));
  for (const uint64_t cookie : {uint64_t{3}, uint64_t{12345}, uint64_t{1} << 40, kMax - 1, kMax, kMax + 1, ~uint64_t{0}}) {
    const FuseReply reply = peer.readdir(dir, 0, cookie, 4096);
    BOOST_TEST(reply.error == 0);
    BOOST_TEST(FusePeer::entries(reply).size() <= 20U);
  }
}

// What the guest's kernel has not written back yet would be told as a hole (decision 0211).
BOOST_AUTO_TEST_CASE(seek_is_the_guests_own_under_writeback) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  peer.write(file, 0, 8192, "tail");
  const fuse_lseek_in in{.fh = 0, .offset = 0, .whence = 3, .padding = 0};
  BOOST_TEST(peer.call(FUSE_LSEEK, file, pack(in)).error == ENOSYS);
}

BOOST_AUTO_TEST_CASE(setattr_knows_its_bits) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  fuse_setattr_in in{};
  in.valid = 1U << 12;
  BOOST_TEST(peer.setattr(file, in).error == EINVAL);
  in.valid = UINT32_MAX;
  BOOST_TEST(peer.setattr(file, in).error == EINVAL);
}

BOOST_AUTO_TEST_CASE(setattr_size_takes_nothing_for_a_hole_and_ends_at_2_63) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  fuse_setattr_in in{};
  in.valid = FATTR_SIZE;
  for (const uint64_t size : {kMax + 1, ~uint64_t{0}}) {
    in.size = size;
    BOOST_TEST(peer.setattr(file, in).error == EFBIG);
  }
  in.size = uint64_t{1} << 40;
  const FuseReply reply = peer.setattr(file, in);
  BOOST_TEST((reply.error == 0 || reply.error == EFBIG));
  BOOST_TEST(peer.getattr(file).as<fuse_attr_out>().attr.blocks == 0U);
  BOOST_TEST(peer.setattr(dir, in).error == EISDIR);
}

BOOST_AUTO_TEST_CASE(setattr_times_have_nanoseconds_below_a_second) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  fuse_setattr_in in{};
  in.mtimensec = 1'000'000'000;
  in.atimensec = UINT32_MAX;
  in.ctimensec = 1'000'000'000;
  for (const uint32_t bit : {FATTR_MTIME, FATTR_ATIME, FATTR_CTIME}) {
    in.valid = bit;
    BOOST_TEST(peer.setattr(file, in).error == EINVAL);
  }
  in.valid = FATTR_MTIME | FATTR_MTIME_NOW;  // the time beside NOW is not looked at
  BOOST_TEST(peer.setattr(file, in).error == 0);
  in.valid = FATTR_MTIME;
  in.mtime = static_cast<uint64_t>(int64_t{-5});
  in.mtimensec = 999'999'999;
  const auto attr = peer.setattr(file, in).as<fuse_attr_out>().attr;
  BOOST_TEST(static_cast<int64_t>(attr.mtime) == -5);
  BOOST_TEST(attr.mtimensec == 999'999'999U);
}

BOOST_AUTO_TEST_CASE(setattr_refuses_the_owner_that_means_leave_it) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  fuse_setattr_in in{};
  in.uid = in.gid = UINT32_MAX;
  in.valid = FATTR_UID;
  BOOST_TEST(peer.setattr(file, in).error == EINVAL);
  in.valid = FATTR_GID;
  BOOST_TEST(peer.setattr(file, in).error == EINVAL);
}

BOOST_AUTO_TEST_CASE(suid_and_sgid_go_when_the_guest_says_so) {
  const uint64_t file = node_of(peer.create(dir, "a", 2, S_IFREG | 06755));
  peer.write(file, 0, 0, "x");
  BOOST_TEST((peer.getattr(file).as<fuse_attr_out>().attr.mode & 07777) == 06755U);
  peer.write(file, 0, 0, "x", FUSE_WRITE_KILL_SUIDGID);
  BOOST_TEST((peer.getattr(file).as<fuse_attr_out>().attr.mode & 07777) == 0755U);
}

BOOST_AUTO_TEST_CASE(what_was_removed_is_free_within_a_few_looks) {
  const auto free_blocks = [&] { return peer.call(FUSE_STATFS, kRoot, {}).as<fuse_statfs_out>().st.bfree; };
  const uint64_t before = free_blocks();
  const uint64_t file = node_of(peer.create(dir, "large"));
  const std::string piece(1 << 20, 'x');
  for (uint64_t at = 0; at < 16; ++at) peer.write(file, 0, at << 20, piece);
  BOOST_TEST(free_blocks() == before - (16 << 8));
  BOOST_TEST(peer.unlink(dir, "large").error == 0);
  BOOST_TEST(free_blocks() == before - (16 << 8));  // the guest may still have it open
  peer.forget(file, 1);
  uint64_t now = 0;
  for (int look = 0; look < 50 && now != before; ++look) now = free_blocks();  // each frees for half a millisecond
  BOOST_TEST(now == before);
}

BOOST_AUTO_TEST_CASE(budget_stands_in_statfs) {
  const auto before = peer.call(FUSE_STATFS, kRoot, {}).as<fuse_statfs_out>().st;
  const uint64_t file = node_of(peer.create(dir, "a"));
  peer.write(file, 0, 0, std::string(64 * 1024, 'x'));
  const auto after = peer.call(FUSE_STATFS, kRoot, {}).as<fuse_statfs_out>().st;
  BOOST_TEST(before.blocks == after.blocks);
  BOOST_TEST(before.bfree - after.bfree >= 16U);
  BOOST_TEST(before.ffree - after.ffree == 1U);
  BOOST_TEST(after.namelen == 255U);
  BOOST_TEST(after.bsize == 4096U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::fs_cases
