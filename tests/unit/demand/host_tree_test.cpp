#include "broker/demand/host_tree.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <vector>

#include "vmm/sys/bytes.h"
#include "vmm/sys/memfd.h"
#include "vmm/sys/socket.h"

namespace turnbox::demand {
namespace {

namespace stdfs = std::filesystem;

struct TempDir {
  TempDir() {
    char name[] = "/tmp/turnbox-test-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~TempDir() { stdfs::remove_all(path); }
  std::string path;
};

struct Row {
  char type;
  uint16_t mode;
  std::string path, body;
};

// Reads a stream back with the rules of docs/WIRE.md, independent of the reader in fs/tree.
std::vector<Row> rows_of(const std::vector<sys::Bytes>& pieces) {
  std::vector<Row> rows;
  for (size_t i = 0; i < pieces.size(); ++i) {
    sys::ByteReader reader(pieces[i]);
    if (i == 0) BOOST_REQUIRE(sys::as_text(*reader.take(8)) == "TBIMPRT1");
    while (reader.remaining() > 0) {
      Row row;
      row.type = static_cast<char>(*reader.take_le<uint8_t>());
      reader.take(1);
      row.mode = *reader.take_le<uint16_t>();
      reader.take(4 + 4 + 8 + 4 + 4);
      const auto path = *reader.take_le<uint32_t>();
      const auto body = *reader.take_le<uint64_t>();
      row.path = sys::as_text(*reader.take(path));
      row.body = sys::as_text(*reader.take(body));
      rows.push_back(row);
    }
    BOOST_REQUIRE(!reader.failed());
  }
  return rows;
}

struct Read {
  sys::Result<HostTreeTotals> result;
  std::vector<Row> rows;
};

Read read(const std::string& path, RootKind kind = RootKind::directory) {
  std::vector<sys::Bytes> pieces;
  bool last = false;
  auto take = [&](sys::Fd memfd, bool more) -> sys::Status {
    BOOST_REQUIRE(!last);
    last = !more;
    auto map = sys::map_sealed(memfd.get(), size_t{1} << 30);
    BOOST_REQUIRE(map.has_value());
    pieces.emplace_back(map->bytes().begin(), map->bytes().end());
    return {};
  };
  auto result = read_host_tree(path, kind, take, [](const HostTreeTotals&) {});
  if (!result) return {std::move(result), {}};
  BOOST_TEST(last);
  return {std::move(result), rows_of(pieces)};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(host_tree)

BOOST_AUTO_TEST_CASE(keeps_types_modes_links_and_order) {
  TempDir dir;
  stdfs::create_directory(dir.path + "/sub");
  std::ofstream(dir.path + "/sub/a") << "alpha";
  ::chmod((dir.path + "/sub/a").c_str(), 04751);
  stdfs::create_hard_link(dir.path + "/sub/a", dir.path + "/z");
  stdfs::create_symlink("nowhere/at all", dir.path + "/link");
  const Read got = read(dir.path);
  BOOST_REQUIRE(got.result.has_value());
  BOOST_REQUIRE(got.rows.size() == 6);
  BOOST_TEST(got.rows[0].type == 'd');
  BOOST_TEST(got.rows[0].path == "");
  BOOST_TEST(got.rows[1].path == "link");
  BOOST_TEST(got.rows[1].body == "nowhere/at all");
  BOOST_TEST(got.rows[2].path == "sub");
  BOOST_TEST(got.rows[3].path == "sub/a");
  BOOST_TEST(got.rows[3].mode == 04751);
  BOOST_TEST(got.rows[4].type == 'h');
  BOOST_TEST(got.rows[4].path == "z");
  BOOST_TEST(got.rows[4].body == "sub/a");
  BOOST_TEST(got.rows[5].type == 'e');
  BOOST_TEST(got.result->bytes == 5);
}

BOOST_AUTO_TEST_CASE(extended_attributes_come_with_their_entry) {
  TempDir dir;
  std::ofstream(dir.path + "/a") << "alpha";
  stdfs::create_hard_link(dir.path + "/a", dir.path + "/b");
  // Whatever file system this is: trusted. for root on tmpfs, user. for anybody on others.
  const std::string space = ::setxattr(dir.path.c_str(), "user.probe", "", 0, 0) == 0 ? "user." : "trusted.";
  ::removexattr(dir.path.c_str(), "user.probe");
  if (::setxattr((dir.path + "/a").c_str(), (space + "two").c_str(), "22", 2, 0) != 0) {
    BOOST_TEST_MESSAGE("no extended attributes here");
    return;
  }
  ::setxattr((dir.path + "/a").c_str(), (space + "one").c_str(), "", 0, 0);
  ::setxattr(dir.path.c_str(), (space + "dir").c_str(), "d", 1, 0);
  const auto xattr = [&](const std::string& name, const std::string& value) {
    sys::Bytes bytes;
    sys::append_le(bytes, static_cast<uint16_t>(space.size() + name.size()));
    sys::append(bytes, sys::as_bytes(space + name));
    sys::append_le(bytes, static_cast<uint32_t>(value.size()));
    sys::append(bytes, sys::as_bytes(value));
    return std::string(sys::as_text(bytes));
  };
  const Read got = read(dir.path);
  BOOST_REQUIRE(got.result.has_value());
  std::string seen;
  for (const Row& row : got.rows) {
    if (row.type == 'a') seen += row.path + "=" + row.body;
  }
  BOOST_TEST(seen == "=" + xattr("dir", "d") + "a=" + xattr("one", "") + xattr("two", "22"));
}

BOOST_AUTO_TEST_CASE(hole_is_not_sent) {
  TempDir dir;
  const sys::Fd fd = *sys::open_fd((dir.path + "/sparse").c_str(), O_RDWR | O_CREAT, 0600);
  BOOST_REQUIRE(::ftruncate(fd.get(), off_t{1} << 40) == 0);
  BOOST_REQUIRE(::pwrite(fd.get(), "end", 3, (off_t{1} << 40) - 3) == 3);
  const Read got = read(dir.path);
  BOOST_REQUIRE(got.result.has_value());
  BOOST_TEST(got.result->bytes <= 1 << 20);
  BOOST_TEST(sys::load_le<uint64_t>(sys::as_bytes(got.rows[1].body).data()) == uint64_t{1} << 40);
}

BOOST_AUTO_TEST_CASE(large_file_is_cut_into_pieces) {
  TempDir dir;
  std::string content(50u << 20, 'x');
  for (size_t i = 0; i < content.size(); i += 4096) content[i] = static_cast<char>(i >> 12);
  std::ofstream(dir.path + "/big") << content;
  const Read got = read(dir.path);
  BOOST_REQUIRE(got.result.has_value());
  std::string again(content.size(), '\0');
  for (const Row& row : got.rows) {
    if (row.type != 'f' && row.type != 'x') continue;
    sys::ByteReader reader(sys::as_bytes(row.body));
    if (row.type == 'f') BOOST_TEST(*reader.take_le<uint64_t>() == content.size());
    while (reader.remaining() > 0) {
      const auto at = *reader.take_le<uint64_t>();
      const auto bytes = *reader.take(*reader.take_le<uint32_t>());
      again.replace(at, bytes.size(), sys::as_text(bytes));
    }
  }
  BOOST_TEST((again == content));
}

BOOST_AUTO_TEST_CASE(socket_is_refused_by_name) {
  TempDir dir;
  const auto listener = sys::listen_unix(dir.path + "/s.sock", 0600);
  BOOST_REQUIRE(listener.has_value());
  const Read got = read(dir.path);
  BOOST_REQUIRE(!got.result.has_value());
  BOOST_TEST(got.result.error().text.find("s.sock is a socket") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(file_is_no_workspace_but_an_input) {
  TempDir dir;
  std::ofstream(dir.path + "/f") << "x";
  BOOST_TEST(read(dir.path + "/f").result.error().text.find("is not a directory") != std::string::npos);
  const Read got = read(dir.path + "/f", RootKind::any);
  BOOST_REQUIRE(got.result.has_value());
  BOOST_TEST(got.rows[0].type == 'f');
  BOOST_TEST(got.rows[0].path == "");
  BOOST_TEST(!read(dir.path + "/missing").result.has_value());
}

BOOST_AUTO_TEST_CASE(name_of_255_bytes_that_are_no_utf8_is_kept) {
  TempDir dir;
  const std::string name(255, '\xfe');
  std::ofstream(dir.path + "/" + name) << "x";
  const Read got = read(dir.path);
  BOOST_REQUIRE(got.result.has_value());
  BOOST_TEST((got.rows.at(1).path == name));
}

BOOST_AUTO_TEST_CASE(device_node_is_refused_by_name, *boost::unit_test::precondition([](auto) {
                       return boost::test_tools::assertion_result(::geteuid() == 0);
                     })) {
  TempDir dir;
  BOOST_REQUIRE(::mknod((dir.path + "/zero").c_str(), S_IFCHR | 0666, makedev(1, 5)) == 0);
  const auto done = read(dir.path).result;
  BOOST_REQUIRE(!done.has_value());
  BOOST_TEST(done.error().text.find(dir.path + "/zero is a device") != std::string::npos, done.error().text);
}

BOOST_AUTO_TEST_CASE(unreadable_file_is_refused_by_name) {
  TempDir dir;
  ::chmod(dir.path.c_str(), 0755);
  std::ofstream(dir.path + "/secret") << "x";
  ::chmod((dir.path + "/secret").c_str(), 0);
  // Root reads everything: the effective user is another for the time.
  const bool root = ::geteuid() == 0;
  if (root) BOOST_REQUIRE(::seteuid(65534) == 0);
  const auto done = read(dir.path).result;
  if (root) BOOST_REQUIRE(::seteuid(0) == 0);
  BOOST_REQUIRE(!done.has_value());
  BOOST_TEST(done.error().text.find(dir.path + "/secret") != std::string::npos, done.error().text);
  BOOST_TEST(done.error().text.find("Permission denied") != std::string::npos, done.error().text);
}

BOOST_AUTO_TEST_CASE(many_entries_are_all_kept) {
  TempDir dir;
  for (int i = 0; i < 200; ++i) {
    const std::string below = dir.path + "/d" + std::to_string(i);
    stdfs::create_directory(below);
    for (int j = 0; j < 100; ++j) std::ofstream(below + "/" + std::to_string(j)) << j;
  }
  const auto done = read(dir.path).result;
  BOOST_REQUIRE(done.has_value());
  BOOST_TEST(done->entries == 1u + 200 + 20'000);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::demand
