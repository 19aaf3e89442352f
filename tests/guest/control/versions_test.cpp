// Versions of a live workspace over the second door: named and unnamed snapshots, forks, looking into them,
// restore.
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "broker/demand/import_stream.h"
#include "tests/guest/control/fsd_process.h"
#include "vmm/sys/socket.h"

namespace turnbox::control {
namespace {

using sys::ErrorKind;

sys::Bytes content(const std::string& text) {
  sys::Bytes body;
  sys::append_le(body, static_cast<uint64_t>(text.size()));
  sys::append_le(body, uint64_t{0});
  sys::append_le(body, static_cast<uint32_t>(text.size()));
  sys::append(body, sys::as_bytes(text));
  return body;
}

struct Fixture {
  Daemon daemon{{"--control-uid", std::to_string(::geteuid())}, false};
  Client owner = daemon.client();

  Client connect() const {
    return Client(sys::connect_unix(daemon.operators_socket()).value(), std::chrono::seconds(60));
  }
  // A new epoch with this content.
  void fill(const std::string& text, const std::string& name = "file") {
    BOOST_REQUIRE(owner.workspace_epoch().has_value());
    const demand::TakePiece take = [&](sys::Fd memfd, bool more) -> sys::Status {
      return owner.import("workspace", memfd.get(), more).map([](const Imported&) {});
    };
    demand::ImportStream out(take, size_t{1} << 20);
    (void)out.put({.type = 'd', .mode = 0755}, "");
    (void)out.put({.type = 'd', .mode = 0700}, "dir");
    (void)out.put({.type = 'f', .mode = 0640, .uid = 3, .gid = 4, .mtime_sec = 5, .mtime_nsec = 6},
                  "dir/" + name, content(text));
    (void)out.put({.type = 'l', .mode = 0777}, "link", sys::as_bytes(std::string_view("dir")));
    BOOST_REQUIRE(out.finish().has_value());
  }
  static std::string get(Client& files, std::string_view of, std::string_view path) {
    std::string text;
    const auto read = files.read(of, path, [&](sys::ByteSpan bytes) -> sys::Status {
      text += sys::as_text(bytes);
      return {};
    });
    BOOST_REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().text));
    return text;
  }
};

template <typename T>
ErrorKind kind(const sys::Result<T>& result) {
  BOOST_REQUIRE(!result.has_value());
  return result.error().kind;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(versions, Fixture)

BOOST_AUTO_TEST_CASE(a_named_snapshot_stays_as_it_was) {
  Client files = connect();
  fill("first");
  BOOST_REQUIRE(files.snapshot_take("workspace", "one").has_value());
  fill("second");
  BOOST_TEST(get(files, "@one", "dir/file") == "first");
  BOOST_TEST(get(files, "workspace", "dir/file") == "second");
  BOOST_TEST(get(files, "@one", "link") == "dir");
  const auto listed = files.versions().value();
  BOOST_REQUIRE(listed.size() == 1u);
  BOOST_TEST(listed[0].name == "one");
  BOOST_TEST(!listed[0].fork);
  // Another connection sees it too, and it outlives the one that took it.
  { const Client gone = std::move(files); }
  Client other = connect();
  BOOST_TEST(get(other, "@one", "dir/file") == "first");
  BOOST_REQUIRE(other.drop("one").has_value());
  BOOST_TEST((kind(other.list("@one", "")) == ErrorKind::not_found));
  BOOST_TEST((kind(other.drop("one").map([] { return 0; })) == ErrorKind::not_found));
}

BOOST_AUTO_TEST_CASE(an_unnamed_snapshot_goes_with_its_connection) {
  Client other = connect();
  SnapshotId id = 0;
  {
    Client files = connect();
    id = files.snapshot_take("workspace").value();
    BOOST_TEST(files.digest(id, "workspace").has_value());
    BOOST_TEST((kind(other.release(id).map([] { return 0; })) == ErrorKind::refused));
  }
  while (other.digest(id, "workspace")) {
  }
  BOOST_TEST((kind(other.digest(id, "workspace")) == ErrorKind::not_found));
  const SnapshotId mine = other.snapshot_take("workspace").value();
  BOOST_TEST(other.release(mine).has_value());
  BOOST_TEST((kind(other.digest(mine, "workspace")) == ErrorKind::not_found));
}

BOOST_AUTO_TEST_CASE(names_are_checked_and_taken_once) {
  Client files = connect();
  BOOST_REQUIRE(files.snapshot_take("workspace", "one").has_value());
  BOOST_TEST((kind(files.snapshot_take("workspace", "one")) == ErrorKind::conflict));
  for (const char* bad : {"A", "a b", "../x", "a/b", "-a", "a--b"})
    BOOST_TEST((kind(files.snapshot_take("workspace", bad)) == ErrorKind::invalid), bad);
  for (const char* bad : {"", "wörkspace", "one", "snapshot:", "snapshot:x", "snapshot:1x", "outputs/run"})
    BOOST_TEST((kind(files.snapshot_take(bad)) == ErrorKind::invalid), bad);
  BOOST_TEST((kind(files.snapshot_take("@two")) == ErrorKind::not_found));
  BOOST_TEST((kind(files.snapshot_take("snapshot:99")) == ErrorKind::not_found));
}

BOOST_AUTO_TEST_CASE(operators_versions_have_a_limit_of_their_own) {
  Client files = connect();
  for (int i = 0; i < 128; ++i)
    BOOST_REQUIRE(files.snapshot_take("workspace", "v" + std::to_string(i)).has_value());
  BOOST_TEST((kind(files.snapshot_take("workspace")) == ErrorKind::limit));
  BOOST_TEST((kind(files.snapshot_take("workspace", "more")) == ErrorKind::limit));
  const auto turn = owner.turn_begin({.turn = "01JDRY0000000000000000000A",
                                      .demand = "run-1",
                                      .thread = "main",
                                      .thread_seq = 1,
                                      .tier = "emulated",
                                      .inputs = {}});
  BOOST_TEST(turn.has_value());
}

BOOST_AUTO_TEST_CASE(a_directory_is_listed_and_no_symlink_is_followed) {
  Client files = connect();
  const std::string odd("o\xff\xfe");
  fill("text", odd);
  auto rows = files.list("workspace", "dir").value();
  BOOST_REQUIRE(rows.size() == 1u);
  BOOST_TEST((rows[0].name == odd));
  BOOST_TEST(rows[0].type == 'f');
  BOOST_TEST(rows[0].mode == 0640);
  BOOST_TEST(rows[0].uid == 3u);
  BOOST_TEST(rows[0].gid == 4u);
  BOOST_TEST(rows[0].size == 4u);
  BOOST_TEST(rows[0].mtime_sec == 5);
  BOOST_TEST(rows[0].mtime_nsec == 6u);
  BOOST_TEST(files.list("workspace", "").value().size() == 2u);
  BOOST_TEST(get(files, "workspace", "dir/" + odd) == "text");
  BOOST_TEST(files.list("workspace", "dir/" + odd).value().size() == 1u);
  for (const char* bad : {"link/x", "..", "../ws", "dir/../dir", "none"})
    BOOST_TEST(!files.list("workspace", bad).has_value(), bad);
  BOOST_TEST(!files.read("workspace", "dir", [](sys::ByteSpan) { return sys::Status(); }).has_value());
}

BOOST_AUTO_TEST_CASE(a_large_file_comes_in_pieces) {
  Client files = connect();
  std::string text(10 << 20, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 40503U >> 7);
  fill(text);
  BOOST_TEST((get(files, "workspace", "dir/file") == text));
}

BOOST_AUTO_TEST_CASE(a_workspace_goes_back_to_a_snapshot_in_a_new_epoch) {
  Client files = connect();
  fill("first");
  const SnapshotId id = files.snapshot_take("workspace", "one").value();
  const auto before = files.digest(id, "workspace").value();
  fill("second");
  const uint64_t epoch = owner.info().value().workspace_epoch;
  BOOST_TEST(files.workspace_restore("@one").value() == epoch + 1);
  BOOST_TEST(get(files, "workspace", "dir/file") == "first");
  const auto after = files.digest(files.snapshot_take("workspace").value(), "workspace").value();
  BOOST_TEST(sys::to_hex(after.content) == sys::to_hex(before.content));
  BOOST_TEST((kind(files.workspace_restore("@none")) == ErrorKind::not_found));
  BOOST_TEST(owner.info().value().workspace_epoch == epoch + 1);
}

BOOST_AUTO_TEST_CASE(snapshots_of_one_workspace_are_compared) {
  Client files = connect();
  fill("first");
  const SnapshotId one = files.snapshot_take("workspace").value();
  BOOST_REQUIRE(files.workspace_restore("snapshot:" + std::to_string(one)).has_value());
  const SnapshotId two = files.snapshot_take("workspace").value();
  BOOST_TEST(files.diff(one, one).value().rows.empty());
  BOOST_TEST(files.diff(two, two).value().rows.empty());
}

BOOST_AUTO_TEST_CASE(a_fork_begins_as_its_snapshot_and_outlives_it) {
  Client files = connect();
  fill("first");
  const SnapshotId id = files.snapshot_take("workspace", "one").value();
  BOOST_REQUIRE(files.snapshot_fork(id, "try").has_value());
  BOOST_TEST((kind(files.snapshot_fork(id, "try").map([] { return 0; })) == ErrorKind::conflict));
  BOOST_TEST((kind(files.snapshot_fork(99, "other").map([] { return 0; })) == ErrorKind::not_found));
  fill("second");
  BOOST_REQUIRE(files.drop("one").has_value());
  BOOST_TEST(get(files, "@try", "dir/file") == "first");
  const auto listed = files.versions().value();
  BOOST_REQUIRE(listed.size() == 1u);
  BOOST_TEST(listed[0].fork);
  // Two trees are compared by digests, not by their nodes.
  const SnapshotId forked = files.snapshot_take("@try").value(),
                   live = files.snapshot_take("workspace").value();
  BOOST_TEST((kind(files.diff(forked, live)) == ErrorKind::conflict));
  BOOST_TEST(files.diff(forked, forked).value().rows.empty());
  const auto digest = files.digest(forked, "workspace").value();
  // A workspace goes back to a fork too, and the fork can go after that.
  BOOST_REQUIRE(files.workspace_restore("@try").has_value());
  BOOST_REQUIRE(files.drop("try").has_value());
  BOOST_TEST(get(files, "workspace", "dir/file") == "first");
  const auto after = files.digest(files.snapshot_take("workspace").value(), "workspace").value();
  BOOST_TEST(sys::to_hex(after.content) == sys::to_hex(digest.content));
  // The snapshot of the fork is still whole.
  BOOST_TEST(files.digest(forked, "workspace").has_value());
  BOOST_REQUIRE(files.release(forked).has_value());
  fill("third");
  BOOST_TEST(get(files, "workspace", "dir/file") == "third");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::control
