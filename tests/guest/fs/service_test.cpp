// What an honest kernel asks, and must get.
#include <dirent.h>
#include <linux/fs.h>
#include <sys/stat.h>

#include <map>
#include <set>

#include "tests/guest/fs/cases.h"

namespace turnbox::fs_cases {

BOOST_FIXTURE_TEST_SUITE(service, Workspace)

BOOST_AUTO_TEST_CASE(file_is_made_written_read_moved_and_removed) {
  const FuseReply made = peer.create(dir, "file", 2, S_IFREG | 0640);
  BOOST_REQUIRE_EQUAL(made.error, 0);
  const auto entry = made.as<fuse_entry_out>();
  BOOST_TEST(entry.attr.mode == (S_IFREG | 0640U));
  BOOST_TEST(entry.attr.nlink == 1U);
  BOOST_TEST(entry.entry_valid > 0U);
  BOOST_TEST(open_of(made).fh == 0U);
  BOOST_TEST(open_of(made).open_flags == static_cast<uint32_t>(FOPEN_KEEP_CACHE));

  std::string content(300'000, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 31 + i / 251);
  for (size_t at = 0; at < content.size(); at += 70'001) {
    const std::string piece = content.substr(at, 70'001);
    BOOST_TEST(peer.write(entry.nodeid, 0, at, piece).as<fuse_write_out>().size == piece.size());
  }
  BOOST_TEST((read_all(entry.nodeid) == content));
  BOOST_TEST(peer.getattr(entry.nodeid).as<fuse_attr_out>().attr.size == content.size());

  const uint64_t sub = node_of(peer.mkdir(dir, "sub"));
  BOOST_TEST(peer.rename(dir, "file", sub, "moved").error == 0);
  BOOST_TEST(node_of(peer.lookup(dir, "file")) == 0U);
  BOOST_TEST(node_of(peer.lookup(sub, "moved")) == entry.nodeid);
  BOOST_TEST(peer.call(FUSE_RMDIR, dir, pack("sub")).error == ENOTEMPTY);
  BOOST_TEST(peer.unlink(sub, "moved").error == 0);
  BOOST_TEST(peer.call(FUSE_RMDIR, dir, pack("sub")).error == 0);
  BOOST_TEST(peer.call(FUSE_RMDIR, dir, pack("sub")).error == ENOENT);
}

BOOST_AUTO_TEST_CASE(hole_reads_as_zeros_and_truncate_forgets) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  peer.write(file, 0, 100'000, "end");
  BOOST_TEST((read_all(file) == std::string(100'000, '\0') + "end"));
  BOOST_TEST(peer.getattr(file).as<fuse_attr_out>().attr.blocks <= 16U);
  fuse_setattr_in in{};
  in.valid = FATTR_SIZE;
  in.size = 100'001;
  peer.setattr(file, in);
  in.size = 100'003;
  peer.setattr(file, in);
  BOOST_TEST((read_all(file) == std::string(100'000, '\0') + "e" + std::string(2, '\0')));
}

BOOST_AUTO_TEST_CASE(hard_link_is_the_same_node) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  const FuseReply linked = peer.call(FUSE_LINK, dir, pack(fuse_link_in{file}, "b"));
  BOOST_TEST(node_of(linked) == file);
  BOOST_TEST(linked.as<fuse_entry_out>().attr.nlink == 2U);
  BOOST_TEST(peer.unlink(dir, "a").error == 0);
  BOOST_TEST(peer.getattr(file).as<fuse_attr_out>().attr.nlink == 1U);
  BOOST_TEST(node_of(peer.lookup(dir, "b")) == file);
}

BOOST_AUTO_TEST_CASE(guest_s_times_and_owner_are_kept) {
  const uint64_t file = node_of(peer.create(dir, "a"));
  fuse_setattr_in in{};
  in.valid = FATTR_MTIME | FATTR_CTIME | FATTR_UID | FATTR_GID | FATTR_MODE;
  in.mtime = 1'000'000'000;
  in.mtimensec = 123'456'789;
  in.ctime = 1'000'000'001;
  in.ctimensec = 5;
  in.uid = 1000;
  in.gid = 1001;
  in.mode = S_IFREG | 0604;
  const auto attr = peer.setattr(file, in).as<fuse_attr_out>().attr;
  BOOST_TEST(attr.mtime == 1'000'000'000U);
  BOOST_TEST(attr.mtimensec == 123'456'789U);
  BOOST_TEST(attr.ctime == 1'000'000'001U);
  BOOST_TEST(attr.uid == 1000U);
  BOOST_TEST(attr.gid == 1001U);
  BOOST_TEST(attr.mode == (S_IFREG | 0604U));
}

BOOST_AUTO_TEST_CASE(owner_is_the_caller_s) {
  peer.uid = 1234;
  peer.gid = 4321;
  const auto entry = peer.create(dir, "a").as<fuse_entry_out>();
  peer.uid = peer.gid = 0;
  BOOST_TEST(entry.attr.uid == 1234U);
  BOOST_TEST(entry.attr.gid == 4321U);
}

BOOST_AUTO_TEST_CASE(ten_thousand_names_are_listed_once_each_through_small_buffers) {
  constexpr int kNames = 10'000;
  for (int i = 0; i < kNames; ++i) {
    const fuse_mknod_in in{.mode = S_IFREG | 0600, .rdev = 0, .umask = 0, .padding = 0};
    const FuseReply made = peer.call(FUSE_MKNOD, dir, pack(in, "file-" + std::to_string(i)));
    if (made.error != 0) BOOST_FAIL("mknod " << i << " answered " << made.error);
  }
  for (const uint32_t size : {320U, 4096U, 65'536U}) {
    std::set<std::string> names;
    size_t count = 0;
    uint64_t cookie = 0;
    while (true) {
      const FuseReply reply = peer.readdir(dir, 0, cookie, size);
      BOOST_REQUIRE_EQUAL(reply.error, 0);
      const auto entries = FusePeer::entries(reply);
      if (entries.empty()) break;
      for (const auto& entry : entries) names.insert(entry.name);
      count += entries.size();
      cookie = entries.back().cookie;
    }
    BOOST_TEST(count == kNames + 2U);
    BOOST_TEST(names.size() == kNames + 2U);
    BOOST_TEST(names.contains("."));
    BOOST_TEST(names.contains(".."));
    BOOST_TEST(names.contains("file-9999"));
  }
}

BOOST_AUTO_TEST_CASE(listing_goes_on_while_names_are_removed) {
  constexpr int kNames = 500;
  for (int i = 0; i < kNames; ++i) peer.mkdir(dir, "d" + std::to_string(i));
  std::multiset<std::string> seen;
  uint64_t cookie = 0;
  while (true) {
    const auto entries = FusePeer::entries(peer.readdir(dir, 0, cookie, 512));
    if (entries.empty()) break;
    for (const auto& entry : entries) {
      seen.insert(entry.name);
      if (entry.name[0] == 'd') BOOST_TEST(peer.call(FUSE_RMDIR, dir, pack(entry.name)).error == 0);
    }
    cookie = entries.back().cookie;
  }
  BOOST_TEST(seen.size() == kNames + 2U);
  BOOST_TEST(FusePeer::entries(peer.readdir(dir, 0, 0, 4096)).size() == 2U);
}

BOOST_AUTO_TEST_CASE(dots_stand_first_and_point_home_and_up) {
  const uint64_t sub = node_of(peer.mkdir(dir, "sub"));
  const auto entries = FusePeer::entries(peer.readdir(sub, 0, 0, 4096));
  BOOST_REQUIRE_EQUAL(entries.size(), 2U);
  BOOST_TEST(entries[0].name == ".");
  BOOST_TEST(entries[0].ino == sub);
  BOOST_TEST(entries[1].name == "..");
  BOOST_TEST(entries[1].ino == dir);
  BOOST_TEST(entries[1].type == static_cast<uint32_t>(DT_DIR));
  BOOST_TEST(FusePeer::entries(peer.readdir(sub, 0, entries[0].cookie, 4096)).size() == 1U);
  BOOST_TEST(peer.readdir(sub, 0, entries[1].cookie, 4096).body.empty());
}

BOOST_AUTO_TEST_CASE(listing_with_attributes_gives_nodes_that_must_be_forgotten) {
  const uint64_t file = node_of(peer.create(dir, "file"));
  peer.write(file, 0, 0, "12345");
  peer.forget(file, 1);
  BOOST_TEST(peer.getattr(file).error == ESTALE);
  const auto entries = FusePeer::entries(peer.readdir(dir, 0, 0, 4096, true), true);
  BOOST_REQUIRE_EQUAL(entries.size(), 3U);
  BOOST_TEST(entries[0].plus.nodeid == 0U);
  BOOST_TEST(entries[1].plus.nodeid == 0U);
  BOOST_TEST(entries[2].plus.nodeid == file);
  BOOST_TEST(entries[2].plus.attr.size == 5U);
  BOOST_TEST(entries[2].plus.entry_valid > 0U);
  BOOST_TEST(peer.getattr(file).error == 0);
  peer.forget(file, 1);
  BOOST_TEST(peer.getattr(file).error == ESTALE);
}

BOOST_AUTO_TEST_CASE(listing_with_attributes_holds_only_what_it_told) {
  for (int i = 0; i < 50; ++i) peer.forget(node_of(peer.mkdir(dir, "d" + std::to_string(i))), 1);
  const uint64_t before = counter("lookups");
  const auto entries = FusePeer::entries(peer.readdir(dir, 0, 0, 1000, true), true);
  size_t told = 0;
  for (const auto& entry : entries) told += entry.plus.nodeid != 0 ? 1 : 0;
  BOOST_TEST(told >= 1U);
  BOOST_TEST(told < 10U);
  BOOST_TEST(counter("lookups") == before + told);
}

BOOST_AUTO_TEST_CASE(syncfs_is_answered) {
  BOOST_TEST(peer.call(FUSE_SYNCFS, kRoot, pack(fuse_syncfs_in{})).error == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::fs_cases
