// An operator's mount over the real fsd: what is shown, to whom it may be written, and how it ends.
#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>

#include "tests/support/mounted.h"
#include "vmm/sys/memfd.h"

namespace turnbox::support {
namespace {

void put(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string get(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The errno of a call that must fail; 0 when it did not.
template <typename Call>
int error_of(Call call) {
  errno = 0;
  return call() < 0 ? errno : 0;
}

std::vector<uint64_t> wait_gone(control::Client& client) {
  while (true) {
    auto gone = client.take_gone_mounts().value();
    if (!gone.empty()) return gone;
    pollfd wait{client.fd(), POLLIN, 0};
    BOOST_REQUIRE(::poll(&wait, 1, 30'000) == 1);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(door)

BOOST_AUTO_TEST_CASE(what_is_written_is_there) {
  Mounted mounted;
  const std::string dir = mounted.path();
  put(dir + "/file", "text");
  BOOST_TEST(get(dir + "/file") == "text");
  BOOST_TEST(::mkdir((dir + "/sub").c_str(), 0755) == 0);
  BOOST_TEST(::rename((dir + "/file").c_str(), (dir + "/sub/moved").c_str()) == 0);
  BOOST_TEST(get(dir + "/sub/moved") == "text");
  BOOST_TEST(error_of([&] { return ::access((dir + "/file").c_str(), F_OK); }) == ENOENT);
  BOOST_TEST(mounted.client().info().value().used_bytes == 4096u);
}

BOOST_AUTO_TEST_CASE(a_daemon_with_its_own_user_and_an_empty_root_serves_it) {
  if (::geteuid() != 0) return;
  Mounted mounted({.fsd = {"--uid", "54321", "--gid", "54321"}});
  const control::Info info = mounted.client().info().value();
  BOOST_TEST(info.own_user);
  BOOST_TEST(info.empty_root);
  put(mounted.path() + "/file", "text");
  struct stat found {};
  BOOST_REQUIRE(::stat((mounted.path() + "/file").c_str(), &found) == 0);
  BOOST_TEST(found.st_uid == ::geteuid());
}

BOOST_AUTO_TEST_CASE(a_mount_for_reading_shows_one_moment_and_refuses_every_change) {
  Mounted mounted;
  put(mounted.path() + "/file", "before");
  BOOST_REQUIRE(::symlink("file", (mounted.path() + "/link").c_str()) == 0);
  const test::TempDir other;
  const sys::FuseMount again = mounted.mount_again(other.path());
  put(mounted.path() + "/file", "after");
  put(mounted.path() + "/new", "new");

  const std::string dir = again.dir(), file = dir + "/file", none = dir + "/none";
  BOOST_TEST(get(file) == "before");
  BOOST_TEST(error_of([&] { return ::access((dir + "/new").c_str(), F_OK); }) == ENOENT);
  char target[16] = {};
  BOOST_TEST(::readlink((dir + "/link").c_str(), target, sizeof target) == 4);
  BOOST_TEST(error_of([&] { return ::open(file.c_str(), O_WRONLY); }) == EROFS);
  BOOST_TEST(error_of([&] { return ::open(none.c_str(), O_CREAT | O_WRONLY, 0644); }) == EROFS);
  BOOST_TEST(error_of([&] { return ::truncate(file.c_str(), 0); }) == EROFS);
  BOOST_TEST(error_of([&] { return ::unlink(file.c_str()); }) == EROFS);
  BOOST_TEST(error_of([&] { return ::mkdir(none.c_str(), 0755); }) == EROFS);
  BOOST_TEST(error_of([&] { return ::mknod(none.c_str(), S_IFIFO | 0644, 0); }) == EROFS);
  BOOST_TEST(error_of([&] { return ::symlink("x", none.c_str()); }) == EROFS);
  BOOST_TEST(error_of([&] { return ::link(file.c_str(), none.c_str()); }) == EROFS);
  BOOST_TEST(error_of([&] { return ::rename(file.c_str(), none.c_str()); }) == EROFS);
  BOOST_TEST(error_of([&] { return ::chmod(file.c_str(), 0600); }) == EROFS);
  BOOST_TEST(error_of([&] { return ::utimensat(AT_FDCWD, file.c_str(), nullptr, 0); }) == EROFS);
  BOOST_TEST(error_of([&] { return ::setxattr(file.c_str(), "user.a", "1", 1, 0); }) == EROFS);
  BOOST_TEST(get(file) == "before");
}

// The kernel refuses by the mount's flag; the door does so by itself when that flag is taken away.
BOOST_AUTO_TEST_CASE(a_door_for_reading_refuses_even_where_the_mount_would_not) {
  if (::geteuid() != 0) return;
  Mounted mounted;
  put(mounted.path() + "/file", "kept");
  const test::TempDir other;
  const sys::FuseMount again = mounted.mount_again(other.path());
  const std::string dir = again.dir(), file = dir + "/file", none = dir + "/none";
  BOOST_REQUIRE(::mount(nullptr, dir.c_str(), nullptr, MS_REMOUNT | MS_NOSUID | MS_NODEV, nullptr) == 0);
  BOOST_TEST(error_of([&] { return ::open(none.c_str(), O_CREAT | O_WRONLY, 0644); }) == EROFS);
  BOOST_TEST(error_of([&] { return ::truncate(file.c_str(), 0); }) == EROFS);
  BOOST_TEST(error_of([&] { return ::unlink(file.c_str()); }) == EROFS);
  BOOST_TEST(error_of([&] { return ::mkdir(none.c_str(), 0755); }) == EROFS);
  BOOST_TEST(error_of([&] { return ::rename(file.c_str(), none.c_str()); }) == EROFS);
  BOOST_TEST(error_of([&] { return ::chmod(file.c_str(), 0600); }) == EROFS);
  BOOST_TEST(get(file) == "kept");
}

BOOST_AUTO_TEST_CASE(one_mount_writes_and_others_read) {
  Mounted mounted;
  const test::TempDir other;
  {
    const auto second = sys::FuseMount::make(other.path(), true).value();
    const auto refused = mounted.client().mount_attach("workspace", true, second.device());
    BOOST_REQUIRE(!refused);
    BOOST_TEST((refused.error().kind == sys::ErrorKind::conflict));
  }
  put(mounted.path() + "/still", "here");
  BOOST_TEST(get(mounted.path() + "/still") == "here");
  const sys::FuseMount reading = mounted.mount_again(other.path());
  BOOST_TEST(get(reading.dir() + "/still") == "here");
}

BOOST_AUTO_TEST_CASE(a_named_snapshot_stays_as_it_was) {
  Mounted mounted;
  put(mounted.path() + "/file", "first");
  BOOST_REQUIRE(mounted.client().snapshot_take("workspace", "first"));
  put(mounted.path() + "/file", "second");
  const test::TempDir other;
  const sys::FuseMount mount = mounted.mount_again(other.path(), "@first");
  BOOST_TEST(get(mount.dir() + "/file") == "first");
  BOOST_TEST(get(mounted.path() + "/file") == "second");
  const test::TempDir third;
  const auto writing = sys::FuseMount::make(third.path(), true).value();
  const auto refused = mounted.client().mount_attach("@first", true, writing.device());
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().kind == sys::ErrorKind::refused));
  BOOST_TEST(mounted.client().drop("first").has_value());
  BOOST_TEST(get(mount.dir() + "/file") == "first");  // what is mounted stays until it is unmounted
}

BOOST_AUTO_TEST_CASE(a_fork_is_written_by_one_mount_and_the_workspace_does_not_see_it) {
  Mounted mounted;
  put(mounted.path() + "/file", "before");
  const auto snapshot = mounted.client().snapshot_take("workspace").value();
  BOOST_REQUIRE(mounted.client().snapshot_fork(snapshot, "work").has_value());
  const test::TempDir one, two;
  const sys::FuseMount writing = mounted.mount_again(one.path(), "@work", true);
  put(writing.dir() + "/file", "forked");
  put(writing.dir() + "/new", "new");
  BOOST_TEST(::unlink((writing.dir() + "/new").c_str()) == 0);
  BOOST_TEST(get(mounted.path() + "/file") == "before");
  {
    const auto second = sys::FuseMount::make(two.path(), true).value();
    const auto refused = mounted.client().mount_attach("@work", true, second.device());
    BOOST_REQUIRE(!refused);
    BOOST_TEST((refused.error().kind == sys::ErrorKind::conflict));
  }
  const sys::FuseMount reading = mounted.mount_again(two.path(), "@work");
  BOOST_TEST(get(reading.dir() + "/file") == "forked");
  put(writing.dir() + "/later", "seen");
  BOOST_TEST(get(reading.dir() + "/later") == "seen");
  {
    const sys::Fd held = sys::open_fd((reading.dir() + "/later").c_str(), O_RDONLY).value();
    BOOST_REQUIRE(::unlink((writing.dir() + "/later").c_str()) == 0);
    char text[5] = {};
    BOOST_TEST(::pread(held.get(), text, 4, 0) == 4);
    BOOST_TEST(std::string(text) == "seen");
  }
  BOOST_TEST(mounted.client().drop("work").has_value());
  put(writing.dir() + "/file", "still");
  BOOST_TEST(get(writing.dir() + "/file") == "still");
}

BOOST_AUTO_TEST_CASE(an_unmount_from_outside_is_told) {
  Mounted mounted;
  const test::TempDir other;
  sys::FuseMount mount = sys::FuseMount::make(other.path(), false).value();
  const uint64_t number = mounted.client().mount_attach("workspace", false, mount.device()).value();
  mount.close_device();
  BOOST_TEST(error_of([&] { return ::access((other.path() + "/none").c_str(), F_OK); }) == ENOENT);
  sys::FuseMount::unmount(mount.dir(), mount.number());  // as umount or fusermount3 -u would
  BOOST_TEST(wait_gone(mounted.client()) == std::vector<uint64_t>{number}, boost::test_tools::per_element());
  BOOST_TEST(!mounted.client().mount_detach(number));
}

BOOST_AUTO_TEST_CASE(a_detached_mount_answers_and_is_not_told) {
  Mounted mounted;
  const test::TempDir other;
  sys::FuseMount mount = sys::FuseMount::make(other.path(), false).value();
  const uint64_t number = mounted.client().mount_attach("workspace", false, mount.device()).value();
  mount.close_device();
  BOOST_TEST(mounted.client().mount_detach(number).has_value());
  BOOST_TEST(error_of([&] { return ::access((other.path() + "/x").c_str(), F_OK); }) == ENOTCONN);
  mount.unmount();
  BOOST_TEST(::access(other.path().c_str(), F_OK) == 0);
  put(mounted.path() + "/on", "1");
  BOOST_TEST(mounted.client().take_gone_mounts().value().empty());
}

BOOST_AUTO_TEST_CASE(a_killed_daemon_leaves_no_process_waiting) {
  Mounted mounted;
  put(mounted.path() + "/file", "text");
  BOOST_REQUIRE(mounted.fsd().process().signal(SIGKILL));
  BOOST_REQUIRE(mounted.fsd().process().wait_for(std::chrono::seconds(30)));
  BOOST_TEST(error_of([&] { return ::mkdir((mounted.path() + "/x").c_str(), 0755); }) == ENOTCONN);
}

BOOST_AUTO_TEST_CASE(other_descriptors_are_refused_by_name) {
  Mounted mounted;
  const sys::Fd memfd = sys::make_memfd("none").value();
  const auto refused = mounted.client().mount_attach("workspace", false, memfd.get());
  BOOST_REQUIRE(!refused);
  BOOST_TEST(refused.error().text.find("/dev/fuse") != std::string::npos);
  const sys::Fd unmounted = sys::open_fd("/dev/fuse", O_RDWR).value();
  const auto number = mounted.client().mount_attach("workspace", false, unmounted.get());
  // It has no mount: the first look at it ends the door.
  if (number)
    BOOST_TEST(wait_gone(mounted.client()) == std::vector{*number}, boost::test_tools::per_element());
  const auto nothing = mounted.client().mount_attach("@no-such-version", false, unmounted.get());
  BOOST_REQUIRE(!nothing);
  BOOST_TEST((nothing.error().kind == sys::ErrorKind::not_found));
}

BOOST_AUTO_TEST_CASE(an_unlinked_open_file_lives_until_it_is_closed) {
  Mounted mounted;
  const std::string file = mounted.path() + "/file";
  const sys::Fd fd = sys::open_fd(file.c_str(), O_CREAT | O_RDWR, 0600).value();
  BOOST_REQUIRE(::write(fd.get(), "x", 1) == 1);
  const uint64_t before = mounted.client().info().value().used_inodes;
  BOOST_REQUIRE(::unlink(file.c_str()) == 0);
  BOOST_TEST(mounted.client().info().value().used_inodes == before);
  char byte = 0;
  BOOST_TEST(::pread(fd.get(), &byte, 1, 0) == 1);
  BOOST_TEST(byte == 'x');
}

BOOST_AUTO_TEST_CASE(the_budget_ends_what_is_written) {
  Mounted mounted({.fsd = {"--bytes", "1048576", "--inodes", "64"}});
  const sys::Fd fd = sys::open_fd((mounted.path() + "/big").c_str(), O_CREAT | O_RDWR, 0600).value();
  const std::vector<char> piece(1 << 20, 'b');
  BOOST_TEST(::pwrite(fd.get(), piece.data(), piece.size(), 0) == static_cast<ssize_t>(piece.size()));
  BOOST_TEST(error_of([&] { return ::pwrite(fd.get(), piece.data(), 1, 2 << 20); }) == ENOSPC);
  int made = 0;
  while (made < 100 && ::mkdir((mounted.path() + "/d" + std::to_string(made)).c_str(), 0755) == 0) ++made;
  BOOST_TEST(errno == ENOSPC);
  BOOST_TEST(made < 64);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(mount_point)

BOOST_AUTO_TEST_CASE(bad_directories_are_refused_in_a_sentence_and_left_as_they_are) {
  const test::TempDir dir;
  const auto missing = sys::FuseMount::make(dir.path() + "/none", false);
  BOOST_REQUIRE(!missing);
  BOOST_TEST((missing.error().kind == sys::ErrorKind::not_found));
  BOOST_TEST(missing.error().text.find(dir.path() + "/none") != std::string::npos);
  put(dir.path() + "/file", "x");
  const auto file = sys::FuseMount::make(dir.path() + "/file", false);
  BOOST_REQUIRE(!file);
  BOOST_TEST(file.error().text.find("not a directory") != std::string::npos);
  const auto full = sys::FuseMount::make(dir.path(), false);
  BOOST_REQUIRE(!full);
  BOOST_TEST(full.error().text.find("not empty") != std::string::npos);
  BOOST_TEST(get(dir.path() + "/file") == "x");
  BOOST_TEST(sys::FuseMount::number_at(dir.path()).empty());
}

BOOST_AUTO_TEST_CASE(only_the_named_mount_is_taken_away) {
  const test::TempDir dir;
  const std::string odd = dir.path() + "/with blank\\and\ttab";
  BOOST_REQUIRE(::mkdir(odd.c_str(), 0755) == 0);
  sys::FuseMount mount = sys::FuseMount::make(odd, false).value();
  BOOST_TEST(!mount.number().empty());
  BOOST_TEST(sys::FuseMount::number_at(odd) == mount.number());
  sys::FuseMount::unmount(odd, "0:1");
  BOOST_TEST(sys::FuseMount::number_at(odd) == mount.number());
  mount.unmount();
  BOOST_TEST(sys::FuseMount::number_at(odd).empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::support
