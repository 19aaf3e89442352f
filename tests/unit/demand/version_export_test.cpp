// A version as real files is that version: what is read back has its digest.
#include "broker/demand/version_export.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"
#include "tests/unit/demand/host_versions.h"

namespace turnbox::demand {
namespace {

namespace stdfs = std::filesystem;

sys::Bytes content(const std::string& text) {
  sys::Bytes body;
  sys::append_le(body, static_cast<uint64_t>(text.size()));
  if (text.empty()) return body;
  sys::append_le(body, uint64_t{0});
  sys::append_le(body, static_cast<uint32_t>(text.size()));
  sys::append(body, sys::as_bytes(text));
  return body;
}

const std::string kLong = std::string(120, 'n') + "/" + std::string(200, '\xfe');

// In the order of the walk, so that what is read back has the same inode numbers, and so the same meta.
void fill(ImportStream& out) {
  const int64_t t = 1'700'000'000;
  (void)out.put({.type = 'd', .mode = 0750, .mtime_sec = t, .mtime_nsec = 7}, "");
  (void)out.put({.type = 'f', .mode = 0644, .mtime_sec = -3, .mtime_nsec = 500'000'000}, "before-1970",
                content("x"));
  (void)out.put({.type = 'd', .mode = 02755, .mtime_sec = t}, "dir");
  (void)out.put({.type = 'f', .mode = 04755, .mtime_sec = t, .mtime_nsec = 999'999'999}, "dir/big",
                content(std::string(300'000, 'q')));
  (void)out.put({.type = 'f', .mode = 0, .mtime_sec = t}, "empty", content(""));
  (void)out.put({.type = 'h'}, "hard", sys::as_bytes(std::string_view("dir/big")));
  (void)out.put({.type = 'd', .mode = 0700, .mtime_sec = t}, kLong.substr(0, 120));
  (void)out.put({.type = 'f', .mode = 0600, .mtime_sec = t}, kLong, content("deep"));
  (void)out.put({.type = 'p', .mode = 0644, .mtime_sec = t}, "pipe");
  (void)out.put({.type = 'l', .mode = 0777, .mtime_sec = t, .mtime_nsec = 1}, "soft",
                sys::as_bytes(std::string(300, 's')));
}

struct Fixture {
  test::TempDir dir;
  Versions versions;
  turn::StoredTree tree = versions.of_stream(fill);
  const std::string to = dir.path() + "/to";

  void check(const std::string& path) {
    const turn::StoredTree back = versions.of_directory(path);
    BOOST_TEST(sys::to_hex(back.ref().content) == sys::to_hex(tree.ref().content));
    BOOST_TEST(sys::to_hex(back.ref().meta) == sys::to_hex(tree.ref().meta));
  }
  size_t entries() const {
    return static_cast<size_t>(std::distance(stdfs::directory_iterator(dir.path()), {}));
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(version_export, Fixture)

BOOST_AUTO_TEST_CASE(a_directory_has_the_digests_of_the_version) {
  const auto done = export_directory(tree, to);
  BOOST_REQUIRE_MESSAGE(done.has_value(), (done ? "" : done.error().text));
  check(to);
  BOOST_TEST(entries() == 1u);
}

BOOST_AUTO_TEST_CASE(an_empty_directory_is_replaced_and_another_is_refused) {
  stdfs::create_directory(to);
  BOOST_REQUIRE(export_directory(tree, to + "/").has_value());
  check(to);
  const auto again = export_directory(tree, to);
  BOOST_REQUIRE(!again.has_value());
  BOOST_TEST(again.error().text.find("not empty") != std::string::npos, again.error().text);
  check(to);
  std::ofstream(dir.path() + "/file") << "x";
  BOOST_TEST(!export_directory(tree, dir.path() + "/file").has_value());
  BOOST_TEST(!export_directory(tree, dir.path() + "/missing/to").has_value());
  BOOST_TEST(entries() == 2u);
}

BOOST_AUTO_TEST_CASE(an_object_that_is_missing_leaves_nothing) {
  const turn::StoredTree broken(
      [](const sys::Digest&, sys::Bytes&) -> sys::Result<store::Reader::Found> {
        return sys::fail(sys::ErrorKind::not_found, "gone");
      },
      tree.ref());
  BOOST_TEST(!export_directory(broken, to).has_value());
  BOOST_TEST(entries() == 0u);
}

BOOST_AUTO_TEST_CASE(tar_reads_the_archive_back) {
  const std::string file = dir.path() + "/v.tar";
  {
    const sys::Fd fd = sys::open_fd(file.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600).value();
    const auto left_out = export_version_tar(tree, fd.get());
    BOOST_REQUIRE(left_out.has_value());
    BOOST_TEST(left_out->empty());
  }
  stdfs::create_directory(to);
  BOOST_REQUIRE(
      ::system(("tar -xpf " + file + " -C " + to + " --same-owner --delay-directory-restore").c_str()) == 0);
  check(to);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::demand
