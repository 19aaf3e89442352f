// Rules of the turn device: handles, what the guest may cache, the event log, and what a seal leaves.
#include <fcntl.h>

#include "tests/guest/fs/cases.h"

namespace turnbox::fs_cases {

BOOST_FIXTURE_TEST_SUITE(turn, Turn)

BOOST_AUTO_TEST_CASE(init_offers_no_writeback_no_readdirplus_and_no_cached_links) {
  const auto out = peer.init().as<fuse_init_out>();
  const uint32_t wanted = FUSE_HANDLE_KILLPRIV_V2 | FUSE_PARALLEL_DIROPS | FUSE_ASYNC_READ | FUSE_BIG_WRITES |
                          FUSE_MAX_PAGES | FUSE_ATOMIC_O_TRUNC;
  BOOST_TEST(out.flags == wanted);
  BOOST_TEST(peer.readdir(kRoot, open_of(peer.opendir(kRoot)).fh, 0, 4096, true).error == ENOSYS);
}

BOOST_AUTO_TEST_CASE(handle_that_is_not_open_is_refused) {
  const uint64_t before = counter("bad_handles");
  const FuseReply made = peer.create(outputs(), "not-open");
  const uint64_t file = node_of(made);
  const uint64_t handle = open_of(made).fh;
  BOOST_REQUIRE_NE(handle, 0U);
  for (const uint64_t bad : {uint64_t{0}, handle + 1, handle ^ (uint64_t{1} << 32), ~uint64_t{0}}) {
    BOOST_TEST(peer.read(file, bad, 0, 16).error == EBADF);
    BOOST_TEST(peer.write(file, bad, 0, "x").error == EBADF);
  }
  BOOST_TEST(peer.readdir(kRoot, handle, 0, 4096).error == EBADF);
  BOOST_TEST(counter("bad_handles") == before + 9);
}

BOOST_AUTO_TEST_CASE(handle_of_another_node_is_refused) {
  const FuseReply one = peer.create(outputs(), "another-1");
  const FuseReply two = peer.create(outputs(), "another-2");
  BOOST_TEST(peer.write(node_of(one), open_of(two).fh, 0, "x").error == EBADF);
  BOOST_TEST(peer.read(node_of(one), open_of(two).fh, 0, 16).error == EBADF);
  fuse_setattr_in in{};
  in.valid = FATTR_SIZE | FATTR_FH;
  in.fh = open_of(two).fh;
  BOOST_TEST(peer.setattr(node_of(one), in).error == EBADF);
  BOOST_TEST(peer.release(node_of(one), open_of(two).fh).error == 0);  // releases nothing
  BOOST_TEST(peer.write(node_of(two), open_of(two).fh, 0, "x").error == 0);
}

BOOST_AUTO_TEST_CASE(handles_of_files_and_directories_are_not_mixed) {
  const FuseReply made = peer.create(outputs(), "kinds");
  const uint64_t listing = peer.opendir(kRoot).as<fuse_open_out>().fh;
  BOOST_TEST(peer.read(kRoot, listing, 0, 16).error == EBADF);
  BOOST_TEST(peer.readdir(node_of(made), open_of(made).fh, 0, 4096).error == EBADF);
  BOOST_TEST(peer.open(kRoot, O_RDONLY).error == EISDIR);
  BOOST_TEST(peer.opendir(node_of(made)).error == ENOTDIR);
  BOOST_TEST(peer.readdir(kRoot, listing, 0, 4096).error == 0);
}

BOOST_AUTO_TEST_CASE(handle_opened_for_one_direction_does_not_serve_the_other) {
  const FuseReply made = peer.create(outputs(), "direction", O_WRONLY);
  const uint64_t file = node_of(made);
  BOOST_TEST(peer.read(file, open_of(made).fh, 0, 16).error == EBADF);
  const uint64_t reader = peer.open(file, O_RDONLY).as<fuse_open_out>().fh;
  BOOST_TEST(peer.write(file, reader, 0, "x").error == EBADF);
  fuse_setattr_in in{};
  in.valid = FATTR_SIZE | FATTR_FH;
  in.fh = reader;
  BOOST_TEST(peer.setattr(file, in).error == EBADF);
  BOOST_TEST(peer.open(file, O_ACCMODE).error == EINVAL);
  BOOST_TEST(peer.create(outputs(), "direction-2", O_ACCMODE).error == EINVAL);
}

BOOST_AUTO_TEST_CASE(seek_knows_data_and_hole_only) {
  const FuseReply made = peer.create(outputs(), "seek");
  const uint64_t file = node_of(made), handle = open_of(made).fh;
  peer.write(file, handle, 8192, "tail");
  const auto seek = [&](uint64_t offset, uint32_t whence) {
    return peer.call(FUSE_LSEEK, file,
                     pack(fuse_lseek_in{.fh = handle, .offset = offset, .whence = whence, .padding = 0}));
  };
  for (const uint32_t whence : {0U, 1U, 2U, 5U, 0x80000003U, UINT32_MAX}) BOOST_TEST(seek(0, whence).error == EINVAL);
  BOOST_TEST(seek(0, 3).as<fuse_lseek_out>().offset == 8192U);
  BOOST_TEST(seek(0, 4).as<fuse_lseek_out>().offset == 0U);
  BOOST_TEST(seek(9000, 3).error == ENXIO);
  BOOST_TEST(seek(~uint64_t{0}, 3).error == ENXIO);
}

BOOST_AUTO_TEST_CASE(second_release_is_harmless_and_the_number_is_not_used_again) {
  const FuseReply made = peer.create(outputs(), "release");
  const uint64_t file = node_of(made);
  const uint64_t handle = open_of(made).fh;
  BOOST_TEST(peer.release(file, handle).error == 0);
  BOOST_TEST(peer.release(file, handle).error == 0);
  const uint64_t next = peer.open(file, O_RDWR).as<fuse_open_out>().fh;
  BOOST_TEST(next != handle);
  BOOST_TEST(peer.release(file, handle).error == 0);
  BOOST_TEST(peer.write(file, next, 0, "x").error == 0);
  BOOST_TEST(peer.write(file, handle, 0, "x").error == EBADF);
}

BOOST_AUTO_TEST_CASE(open_file_survives_unlink_and_forget) {
  const FuseReply made = peer.create(outputs(), "survivor");
  const uint64_t file = node_of(made);
  BOOST_TEST(peer.write(file, open_of(made).fh, 0, "kept").error == 0);
  BOOST_TEST(peer.unlink(outputs(), "survivor").error == 0);
  BOOST_TEST(peer.read(file, open_of(made).fh, 0, 16).text() == "kept");
  peer.forget(file, 1);
  BOOST_TEST(peer.read(file, open_of(made).fh, 0, 16).error == ESTALE);
}

BOOST_AUTO_TEST_CASE(open_truncates_when_asked) {
  const FuseReply made = peer.create(outputs(), "truncate");
  const uint64_t file = node_of(made);
  peer.write(file, open_of(made).fh, 0, "content");
  BOOST_TEST(peer.open(file, O_WRONLY).error == 0);
  BOOST_TEST(peer.getattr(file).as<fuse_attr_out>().attr.size == 7U);
  BOOST_TEST(peer.open(file, O_WRONLY | O_TRUNC).error == 0);
  BOOST_TEST(peer.getattr(file).as<fuse_attr_out>().attr.size == 0U);
}

BOOST_AUTO_TEST_CASE(create_of_a_name_that_is_there_opens_it) {
  const FuseReply made = peer.create(outputs(), "twice");
  peer.write(node_of(made), open_of(made).fh, 0, "content");
  const FuseReply again = peer.create(outputs(), "twice", O_RDWR);
  BOOST_TEST(node_of(again) == node_of(made));
  BOOST_TEST(peer.read(node_of(again), open_of(again).fh, 0, 16).text() == "content");
  BOOST_TEST(peer.create(outputs(), "twice", O_RDWR | O_EXCL).error == EEXIST);
  BOOST_TEST(peer.create(outputs(), "twice", O_RDWR | O_TRUNC).as<fuse_entry_out>().attr.size == 0U);
}

BOOST_AUTO_TEST_CASE(what_the_host_adds_to_is_never_cached) {
  for (const std::string& path : {std::string("by-id"), std::string("main"), FuseHost::in_turn("stages"),
                                 FuseHost::in_turn("events"), FuseHost::in_turn("turn.json"),
                                 FuseHost::in_turn("stages/01-run")}) {
    const size_t cut = path.rfind('/');
    const uint64_t dir = cut == std::string::npos ? kRoot : peer.walk(path.substr(0, cut));
    const auto entry = peer.lookup(dir, path.substr(cut == std::string::npos ? 0 : cut + 1)).as<fuse_entry_out>();
    BOOST_TEST_CONTEXT(path) {
      BOOST_TEST(entry.nodeid != 0U);
      BOOST_TEST(entry.entry_valid == 0U);
      BOOST_TEST(entry.attr_valid == 0U);
      BOOST_TEST(peer.getattr(entry.nodeid).as<fuse_attr_out>().attr_valid == 0U);
    }
  }
  BOOST_TEST(peer.lookup(kRoot, "not-yet").error == ENOENT);  // and no missing name is remembered
  BOOST_TEST((peer.opendir(kRoot).as<fuse_open_out>().open_flags & (FOPEN_CACHE_DIR | FOPEN_KEEP_CACHE)) == 0U);
}

BOOST_AUTO_TEST_CASE(below_outputs_the_guest_may_cache) {
  const uint64_t dir = outputs();
  const auto entry = peer.create(dir, "cached").as<fuse_entry_out>();
  BOOST_TEST(entry.entry_valid > 0U);
  BOOST_TEST(entry.attr_valid > 0U);
  BOOST_TEST(peer.lookup(dir, "missing").as<fuse_entry_out>().entry_valid > 0U);
  BOOST_TEST(peer.open(entry.nodeid, O_RDONLY).as<fuse_open_out>().open_flags ==
             static_cast<uint32_t>(FOPEN_KEEP_CACHE));
}

BOOST_AUTO_TEST_CASE(thread_is_a_link_to_its_turn) {
  const uint64_t link = peer.walk("main");
  BOOST_TEST(peer.call(FUSE_READLINK, link, {}).text() == std::string("by-id/") + FuseHost::kTurn);
}

BOOST_AUTO_TEST_CASE(guest_cannot_change_what_the_host_made) {
  const uint64_t turn = peer.walk(FuseHost::in_turn(""));
  BOOST_TEST(peer.mkdir(kRoot, "x").error == EROFS);
  BOOST_TEST(peer.unlink(kRoot, "main").error == EROFS);
  BOOST_TEST(peer.create(turn, "x").error == EROFS);
  BOOST_TEST(peer.unlink(turn, "events").error == EROFS);
  BOOST_TEST(peer.rename(turn, "events", turn, "x").error == EROFS);
  BOOST_TEST(peer.open(peer.walk(FuseHost::in_turn("turn.json")), O_WRONLY).error == EROFS);
  BOOST_TEST(peer.open(peer.walk(FuseHost::in_turn("turn.json")), O_RDONLY | O_TRUNC).error == EROFS);
  BOOST_TEST(peer.open(peer.walk(FuseHost::in_turn("turn.json")), O_RDONLY).error == 0);
}

BOOST_AUTO_TEST_CASE(events_open_for_append_only_and_uncached) {
  const uint64_t file = events();
  BOOST_TEST(peer.open(file, O_WRONLY).error == EPERM);
  BOOST_TEST(peer.open(file, O_RDWR).error == EPERM);
  BOOST_TEST(peer.open(file, O_WRONLY | O_APPEND | O_TRUNC).error == EPERM);
  BOOST_TEST(peer.open(file, O_RDONLY | O_TRUNC).error == EPERM);
  const FuseReply writer = peer.open(file, O_WRONLY | O_APPEND);
  BOOST_TEST(writer.error == 0);
  BOOST_TEST(writer.as<fuse_open_out>().open_flags == static_cast<uint32_t>(FOPEN_DIRECT_IO));
  BOOST_TEST(peer.open(file, O_RDONLY).as<fuse_open_out>().open_flags == static_cast<uint32_t>(FOPEN_DIRECT_IO));
}

BOOST_AUTO_TEST_CASE(events_take_lines_wherever_the_offset_points) {
  const uint64_t file = events();
  const uint64_t handle = peer.open(file, O_RDWR | O_APPEND).as<fuse_open_out>().fh;
  const uint64_t start = peer.getattr(file).as<fuse_attr_out>().attr.size;
  BOOST_TEST(peer.write(file, handle, ~uint64_t{0}, "{\"a\":1}\n").error == 0);
  BOOST_TEST(peer.write(file, handle, 0, "{\"b\":2}\n{\"c\"").as<fuse_write_out>().size == 12U);
  BOOST_TEST(peer.read(file, handle, start, 4096).text() == "{\"a\":1}\n{\"b\":2}\n");
  BOOST_TEST(peer.write(file, handle, 0, ":3}\n").error == 0);
  BOOST_TEST(peer.read(file, handle, start, 4096).text() == "{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n");
}

BOOST_AUTO_TEST_CASE(events_refuse_what_is_no_object_and_keep_nothing_of_it) {
  const uint64_t file = events();
  const uint64_t handle = peer.open(file, O_RDWR | O_APPEND).as<fuse_open_out>().fh;
  const uint64_t start = peer.getattr(file).as<fuse_attr_out>().attr.size;
  for (const char* bad : {"[1]\n", "no\n", "{\"a\":1}\n[]\n", "{\"a\":\n", "\n"}) {
    BOOST_TEST(peer.write(file, handle, 0, bad).error == EINVAL);
  }
  BOOST_TEST(peer.write(file, handle, 0, std::string(70'000, 'x')).error == EINVAL);
  BOOST_TEST(peer.getattr(file).as<fuse_attr_out>().attr.size == start);
}

BOOST_AUTO_TEST_CASE(events_keep_unfinished_lines_apart_by_handle_and_drop_them_at_release) {
  const uint64_t file = events();
  const uint64_t one = peer.open(file, O_WRONLY | O_APPEND).as<fuse_open_out>().fh;
  const uint64_t two = peer.open(file, O_RDWR | O_APPEND).as<fuse_open_out>().fh;
  const uint64_t start = peer.getattr(file).as<fuse_attr_out>().attr.size;
  peer.write(file, one, 0, "{\"lost\"");
  peer.write(file, two, 0, "{\"kept\"");
  BOOST_TEST(peer.release(file, one).error == 0);
  BOOST_TEST(peer.write(file, two, 0, ":1}\n").error == 0);
  BOOST_TEST(peer.read(file, two, start, 4096).text() == "{\"kept\":1}\n");
}

BOOST_AUTO_TEST_CASE(events_cannot_be_truncated) {
  fuse_setattr_in in{};
  in.valid = FATTR_SIZE;
  BOOST_TEST(peer.setattr(events(), in).error == EPERM);
  in.size = 1 << 20;
  BOOST_TEST(peer.setattr(events(), in).error == EPERM);
}

BOOST_AUTO_TEST_CASE(names_do_not_cross_zones) {
  const uint64_t dir = outputs();
  peer.create(dir, "here");
  const uint64_t stage = peer.walk(FuseHost::in_turn("stages/01-run"));
  BOOST_TEST(peer.rename(dir, "here", stage, "there").error != 0);
  BOOST_TEST(peer.call(FUSE_LINK, dir, pack(fuse_link_in{events()}, "log")).error == EXDEV);
}

// The last of this suite: the stage is read-only from here.
BOOST_AUTO_TEST_CASE(sealed_outputs_are_read_only_for_open_handles_too) {
  const uint64_t dir = outputs();
  const FuseReply made = peer.create(dir, "sealed");
  const uint64_t file = node_of(made);
  BOOST_TEST(peer.write(file, open_of(made).fh, 0, "before").error == 0);
  host().seal_stage();
  BOOST_TEST(peer.write(file, open_of(made).fh, 0, "AFTER").error == EROFS);
  BOOST_TEST(peer.open(file, O_WRONLY).error == EROFS);
  BOOST_TEST(peer.create(dir, "late").error == EROFS);
  BOOST_TEST(peer.unlink(dir, "sealed").error == EROFS);
  fuse_setattr_in in{};
  in.valid = FATTR_SIZE;
  BOOST_TEST(peer.setattr(file, in).error == EROFS);
  BOOST_TEST(peer.read(file, open_of(made).fh, 0, 16).text() == "before");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::fs_cases
