// `turnbox run --apply` on plain directories: a copy stands for what the guest made of the workspace.
#include "broker/demand/apply.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"
#include "tests/unit/demand/host_versions.h"

namespace turnbox::demand {
namespace {

namespace stdfs = std::filesystem;

void put(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
}

std::string get(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct stat look(const std::string& path) {
  struct stat st {};
  BOOST_REQUIRE(::lstat(path.c_str(), &st) == 0);
  return st;
}

// `host` is what was imported, `guest` a copy of it that the test changes.
struct Fixture {
  test::TempDir dir;
  const std::string host = dir.path() + "/host", guest = dir.path() + "/guest";
  Versions versions;
  HostStamps stamps;
  std::optional<turn::StoredTree> before;

  Fixture() {
    stdfs::create_directories(host + "/src/deep");
    stdfs::create_directories(host + "/gone/below");
    put(host + "/same", "same");
    put(host + "/edit", "old text");
    put(host + "/src/a", "a");
    put(host + "/src/deep/b", "b");
    put(host + "/gone/x", "x");
    put(host + "/gone/below/y", "y");
    put(host + "/one", "linked");
    stdfs::create_hard_link(host + "/one", host + "/two");
    stdfs::create_symlink("edit", host + "/link");
  }
  void import() {
    before.emplace(versions.of_directory(host, &stamps));
    BOOST_REQUIRE(::system(("cp -a " + host + " " + guest).c_str()) == 0);
  }
  sys::Result<Applied> apply() { return apply_changes(host, stamps, *before, versions.of_directory(guest)); }

  // What stands in the directory is what the guest made, and nothing else.
  void check_applied() {
    const turn::StoredTree now = versions.of_directory(host), wanted = versions.of_directory(guest);
    const auto told = diff_trees(now, wanted, [](const turn::TreeChange& change) -> sys::Status {
      BOOST_ERROR(std::string(1, change.change) + " " + change.path);
      return {};
    });
    BOOST_TEST(told.has_value());
    BOOST_TEST(sys::to_hex(now.ref().content) == sys::to_hex(wanted.ref().content));
  }
  void check_untouched(const std::string& content_before) {
    BOOST_TEST(sys::to_hex(versions.of_directory(host).ref().content) == content_before);
  }
  std::string content() { return sys::to_hex(versions.of_directory(host).ref().content); }

  void check_refused(const std::string& names) {
    const std::string was = content();
    const auto done = apply();
    BOOST_REQUIRE(!done.has_value());
    BOOST_TEST((done.error().kind == sys::ErrorKind::conflict), done.error().text);
    BOOST_TEST(done.error().text.find(names) != std::string::npos, done.error().text);
    BOOST_TEST(done.error().text.starts_with("nothing was applied"), done.error().text);
    check_untouched(was);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(apply, Fixture)

BOOST_AUTO_TEST_CASE(nothing_changed_is_nothing_done) {
  import();
  const auto ctime = look(host + "/edit").st_ctim;
  const auto done = apply();
  BOOST_REQUIRE(done.has_value());
  BOOST_TEST(done->added + done->changed + done->removed == 0u);
  BOOST_TEST(look(host + "/edit").st_ctim.tv_nsec == ctime.tv_nsec);
}

BOOST_AUTO_TEST_CASE(files_come_change_and_go) {
  import();
  put(guest + "/edit", "new text");
  put(guest + "/src/new", "new");
  stdfs::create_directories(guest + "/made/in/depth");
  put(guest + "/made/in/depth/file", std::string(200'000, 'z'));
  stdfs::create_symlink("../../nowhere", guest + "/made/soft");
  ::mkfifo((guest + "/made/pipe").c_str(), 0620);
  stdfs::remove_all(guest + "/gone");
  stdfs::remove(guest + "/src/deep/b");
  ::chmod((guest + "/same").c_str(), 0751);
  ::chmod((guest + "/src").c_str(), 0700);
  const auto kept = look(host + "/src/a");
  const auto done = apply();
  BOOST_REQUIRE_MESSAGE(done.has_value(), (done ? "" : done.error().text));
  check_applied();
  BOOST_TEST(get(host + "/edit") == "new text");
  BOOST_TEST(look(host + "/src/a").st_ino == kept.st_ino);
  BOOST_TEST(done->added == 7u);
  BOOST_TEST(done->removed == 5u);
  for (const auto& entry : stdfs::recursive_directory_iterator(host))
    BOOST_TEST(entry.path().string().find(".turnbox-apply") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(times_and_links_are_kept) {
  import();
  put(guest + "/made", "made");
  stdfs::create_hard_link(guest + "/made", guest + "/src/made-too");
  stdfs::remove(guest + "/two");
  put(guest + "/two", "alone");
  const timespec times[2] = {{5, 6}, {1'234'567, 890}};
  for (const char* name : {"/made", "/edit", "/src"}) ::utimensat(AT_FDCWD, (guest + name).c_str(), times, 0);
  const auto done = apply();
  BOOST_REQUIRE_MESSAGE(done.has_value(), (done ? "" : done.error().text));
  check_applied();
  BOOST_TEST(look(host + "/made").st_ino == look(host + "/src/made-too").st_ino);
  BOOST_TEST(look(host + "/one").st_ino != look(host + "/two").st_ino);
  for (const char* name : {"/made", "/edit", "/src"}) {
    BOOST_TEST(look(host + name).st_mtim.tv_sec == 1'234'567);
    BOOST_TEST(look(host + name).st_mtim.tv_nsec == 890);
  }
}

BOOST_AUTO_TEST_CASE(attributes_of_users_are_kept_and_others_are_not_applied) {
  import();
  if (::setxattr((guest + "/edit").c_str(), "user.note", "n", 1, 0) != 0) {
    BOOST_TEST_MESSAGE("this file system has no user attributes");
    return;
  }
  const auto done = apply();
  BOOST_REQUIRE_MESSAGE(done.has_value(), (done ? "" : done.error().text));
  char value[4] = {};
  BOOST_TEST(::getxattr((host + "/edit").c_str(), "user.note", value, sizeof value) == 1);
  BOOST_TEST(value[0] == 'n');
}

BOOST_AUTO_TEST_CASE(a_change_through_one_name_shows_under_both) {
  import();
  put(guest + "/one", "changed through one name");  // in place: both names
  const auto done = apply();
  BOOST_REQUIRE_MESSAGE(done.has_value(), (done ? "" : done.error().text));
  BOOST_TEST(get(host + "/two") == "changed through one name");
  BOOST_TEST(look(host + "/one").st_ino == look(host + "/two").st_ino);
}

BOOST_AUTO_TEST_CASE(types_change) {
  import();
  stdfs::remove(guest + "/edit");
  stdfs::create_directories(guest + "/edit/sub");
  put(guest + "/edit/sub/f", "f");
  stdfs::remove_all(guest + "/gone");
  put(guest + "/gone", "a file now");
  stdfs::remove(guest + "/link");
  put(guest + "/link", "a file");
  stdfs::remove_all(guest + "/src/deep");
  stdfs::create_symlink("/etc", guest + "/src/deep");
  const auto done = apply();
  BOOST_REQUIRE_MESSAGE(done.has_value(), (done ? "" : done.error().text));
  check_applied();
}

BOOST_AUTO_TEST_CASE(names_of_any_bytes_and_odd_order) {
  import();
  for (const std::string& name :
       {std::string(255, '\xfe'), std::string("a\nb"), std::string("src-2"), std::string("src.x")}) {
    stdfs::create_directory(guest + "/" + name);
    put(guest + "/" + name + "/f", name);
  }
  BOOST_REQUIRE(apply().has_value());
  check_applied();
}

BOOST_AUTO_TEST_CASE(more_changes_than_descriptors) {
  for (int i = 0; i < 1'500; ++i) put(host + "/src/n" + std::to_string(i), "old");
  import();
  stdfs::create_directory(guest + "/made");
  for (int i = 0; i < 1'500; ++i) {
    put(guest + "/src/n" + std::to_string(i), "new " + std::to_string(i));
    put(guest + "/src/p" + std::to_string(i), std::to_string(i));
    stdfs::create_hard_link(guest + "/src/p" + std::to_string(i), guest + "/made/q" + std::to_string(i));
  }
  const auto done = apply();
  BOOST_REQUIRE_MESSAGE(done.has_value(), (done ? "" : done.error().text));
  check_applied();
}

BOOST_AUTO_TEST_CASE(a_file_that_changed_on_the_host_is_refused_by_name_even_with_its_old_size_and_time) {
  import();
  put(guest + "/edit", "new text");
  put(guest + "/src/new", "new");
  const auto was = look(host + "/edit");
  put(host + "/edit", "OLD TEXT");
  const timespec times[2] = {was.st_atim, was.st_mtim};
  ::utimensat(AT_FDCWD, (host + "/edit").c_str(), times, 0);
  check_refused(host + "/edit");
}

BOOST_AUTO_TEST_CASE(a_change_elsewhere_does_not_matter) {
  import();
  put(guest + "/edit", "new text");
  put(host + "/same", "something else");
  put(host + "/mine", "mine");
  BOOST_REQUIRE(apply().has_value());
  BOOST_TEST(get(host + "/edit") == "new text");
  BOOST_TEST(get(host + "/same") == "something else");
  BOOST_TEST(get(host + "/mine") == "mine");
}

BOOST_AUTO_TEST_CASE(what_appeared_where_something_is_added_is_refused) {
  import();
  put(guest + "/src/new", "the guest's");
  put(host + "/src/new", "the user's");
  check_refused(host + "/src/new");
}

BOOST_AUTO_TEST_CASE(what_vanished_is_refused) {
  import();
  put(guest + "/edit", "new text");
  stdfs::remove(host + "/edit");
  check_refused(host + "/edit");
}

BOOST_AUTO_TEST_CASE(a_removed_directory_with_something_new_in_it_is_refused) {
  import();
  stdfs::remove_all(guest + "/gone");
  put(host + "/gone/below/precious", "precious");
  check_refused(host + "/gone/below/precious");
}

BOOST_AUTO_TEST_CASE(a_component_that_became_a_symlink_leads_nowhere) {
  import();
  put(guest + "/src/a", "changed");
  put(guest + "/src/deep/new", "new");
  const std::string outside = dir.path() + "/outside";
  stdfs::create_directories(outside + "/deep");
  put(outside + "/a", "outside");
  stdfs::rename(host + "/src", dir.path() + "/moved");
  stdfs::create_symlink(outside, host + "/src");
  check_refused(host + "/src");
  BOOST_TEST(get(outside + "/a") == "outside");
  BOOST_TEST(!stdfs::exists(outside + "/deep/new"));
}

BOOST_AUTO_TEST_CASE(another_directory_under_the_same_name_is_refused) {
  import();
  put(guest + "/edit", "new");
  stdfs::rename(host, host + "-old");
  stdfs::create_directory(host);
  check_refused(host);
}

BOOST_AUTO_TEST_CASE(rights_are_not_applied) {
  import();
  put(guest + "/suid", "#!/bin/sh\n");
  ::chmod((guest + "/suid").c_str(), 06755);
  const auto done = apply();
  BOOST_REQUIRE(done.has_value());
  BOOST_TEST((look(host + "/suid").st_mode & 07777) == 0755u);
  BOOST_REQUIRE(done->notes.size() == 1u);
  BOOST_TEST(done->notes[0].find("suid") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(devices_and_sockets_are_refused_by_name_and_nothing_is_done) {
  import();
  const std::string was = content();
  for (const char type : {'c', 'b', 's'}) {
    const turn::StoredTree after = versions.of_stream([&](ImportStream& out) {
      (void)out.put({.type = 'd', .mode = 0755}, "");
      (void)out.put({.type = type, .mode = 0666, .rdev = type == 's' ? 0U : 0x103U}, "node");
    });
    const auto done = apply_changes(host, stamps, *before, after);
    BOOST_REQUIRE(!done.has_value());
    BOOST_TEST((done.error().kind == sys::ErrorKind::refused));
    BOOST_TEST(done.error().text.find("'node'") != std::string::npos, done.error().text);
    check_untouched(was);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::demand
