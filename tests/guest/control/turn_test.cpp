// A turn from beginning to end over the control socket of the real daemon.
#include <boost/test/unit_test.hpp>
#include <map>
#include <set>

#include "fs/control/object_stream.h"
#include "tests/guest/control/fsd_process.h"
#include "tests/support/print.h"
#include "tests/unit/fsd/world.h"
#include "vmm/sys/memfd.h"

namespace turnbox::control {
namespace {

using sys::ErrorKind;
using turn::ImportBytes;
using turn::kTurnA;
using turn::kTurnB;

void import(Client& client, std::string_view target, const sys::Bytes& stream) {
  const sys::Fd memfd = sys::memfd_with("import", stream).value();
  const auto done = client.import(target, memfd.get(), false);
  BOOST_REQUIRE_MESSAGE(done, done.error().text);
}

TurnBegin begin_main(const std::string& turn, std::vector<std::string> inputs = {}) {
  return {.turn = turn,
          .demand = "run-1",
          .thread = "main",
          .thread_seq = 1,
          .tier = "emulated",
          .inputs = inputs};
}

struct Collected {
  std::map<sys::Digest, ObjectKind> objects;
  uint64_t bytes = 0;
};

// Hashes every object again.
Collected collect(Client& client, SnapshotId snapshot, std::string_view of,
                  std::vector<sys::Digest> have = {}) {
  Collected out;
  const auto done = client.objects(snapshot, of, have, [&](const Object& object) {
    BOOST_REQUIRE(sys::digest_of(fs::name_of(object.kind), object.bytes) == object.digest);
    BOOST_REQUIRE(out.objects.emplace(object.digest, object.kind).second);
    out.bytes += object.bytes.size();
    return sys::Status{};
  });
  BOOST_REQUIRE_MESSAGE(done, done.error().text);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(turn_over_the_socket)

BOOST_AUTO_TEST_CASE(one_turn_gives_digests_objects_and_events) {
  Daemon daemon;
  Client client = daemon.client();
  import(client, "workspace", ImportBytes().root().file("hello", "hello\n").dir("d").end());
  import(client, "input:data", ImportBytes().file("", "an input").end());
  const auto before = client.turn_begin(begin_main(kTurnA, {"data"}));
  BOOST_REQUIRE_MESSAGE(before, before.error().text);
  BOOST_TEST(client.stage_begin(kTurnA, "run").value() == "01-run");
  BOOST_REQUIRE(client.event_append(kTurnA, {{"note", "one"}}));
  BOOST_REQUIRE(client.event_append(kTurnA, {{"note", "two"}}));
  const auto sealed = client.stage_seal(kTurnA, "run");
  BOOST_REQUIRE(sealed);
  const auto end = client.turn_end(kTurnA, "completed");
  BOOST_REQUIRE_MESSAGE(end, end.error().text);

  const std::string log = client.events(kTurnA).value();
  BOOST_TEST(log == "{\"turnbox\":{\"note\":\"one\"}}\n{\"turnbox\":{\"note\":\"two\"}}\n");
  BOOST_TEST(end->events == 2u);
  // docs/RECORD.md by hand: the log is one chunk, so its file object is the size and that chunk's digest.
  sys::Bytes file_object;
  sys::append_le(file_object, static_cast<uint64_t>(log.size()));
  sys::append(file_object, sys::digest_of("chunk", sys::as_bytes(log)).bytes);
  BOOST_TEST((end->events_digest == sys::digest_of("file", file_object)));
  BOOST_TEST(collect(client, end->snapshot, "events").objects.contains(end->events_digest));

  const auto workspace = client.digest(end->snapshot, "workspace");
  BOOST_REQUIRE_MESSAGE(workspace, workspace.error().text);
  BOOST_TEST((workspace->kind == ObjectKind::dir));
  BOOST_TEST(workspace->files == 1u);
  BOOST_TEST(workspace->bytes == 6u);
  const Collected objects = collect(client, end->snapshot, "workspace");
  BOOST_TEST((objects.objects.at(workspace->content) == ObjectKind::dir));
  BOOST_TEST((objects.objects.at(workspace->meta) == ObjectKind::file));
  BOOST_TEST(objects.objects.contains(sys::digest_of("chunk", sys::as_bytes("hello\n"))));
  std::vector<sys::Digest> have;
  for (const auto& [digest, kind] : objects.objects) have.push_back(digest);
  BOOST_TEST(collect(client, end->snapshot, "workspace", have).objects.empty());

  BOOST_TEST((client.digest(*before, "inputs/data")->kind == ObjectKind::file));
  BOOST_TEST((client.digest(*sealed, "outputs/run")->kind == ObjectKind::dir));
  BOOST_TEST(client.digest(*before, "outputs/run").error().kind == ErrorKind::not_found);
  BOOST_TEST(client.diff(*before, end->snapshot)->rows.empty());
  for (const SnapshotId id : {*before, *sealed, end->snapshot}) BOOST_TEST(client.release(id).has_value());
  BOOST_TEST(client.digest(*before, "workspace").error().kind == ErrorKind::not_found);
}

BOOST_AUTO_TEST_CASE(a_second_turn_follows_and_a_new_epoch_shows_in_the_diff) {
  Daemon daemon;
  Client client = daemon.client();
  import(client, "workspace",
         ImportBytes().root().file("gone", "1").file("kept", "1").file("new-text", "1").end());
  const SnapshotId from = client.turn_begin(begin_main(kTurnA)).value();
  BOOST_TEST(client.turn_begin(begin_main(kTurnB)).error().kind == ErrorKind::conflict);
  BOOST_REQUIRE(client.turn_end(kTurnA, "cancelled"));
  BOOST_TEST(client.workspace_epoch().value() == 2u);
  import(client, "workspace",
         ImportBytes().root().file("kept", "1").file("new-text", "2").file("x", "").end());
  const SnapshotId to = client.turn_begin(begin_main(kTurnB)).value();
  const auto changes = client.diff(from, to);
  BOOST_REQUIRE_MESSAGE(changes, changes.error().text);
  std::string told;
  for (const auto& row : changes->rows) told.append({row.change, row.type}).append(row.path).append(" ");
  BOOST_TEST(told == "-fgone ~fnew-text +fx ");
  BOOST_TEST(changes->added == 1u);
  BOOST_TEST(changes->changed == 1u);
  BOOST_TEST(changes->removed == 1u);
  BOOST_TEST(client.info()->workspace_epoch == 2u);
  // The old epoch stays readable in its snapshot.
  BOOST_TEST(client.digest(from, "workspace")->files == 3u);
}

BOOST_AUTO_TEST_CASE(a_subtree_larger_than_a_piece_streams_whole) {
  Daemon daemon;
  Client client = daemon.client();
  constexpr size_t kFiles = 5, kSize = size_t{32} << 20;
  uint64_t seed = 1;
  std::set<sys::Digest> chunks;
  ImportBytes head;
  head.root();
  sys::Bytes piece = head.so_far();
  for (size_t i = 0; i < kFiles; ++i) {
    std::string content(kSize, '\0');
    for (size_t at = 0; at < kSize; at += 8)
      sys::store_le(std::as_writable_bytes(std::span(content)).data() + at,
                    seed = seed * 6364136223846793005U + 1);
    for (size_t at = 0; at < kSize; at += 65536) {
      chunks.insert(sys::digest_of("chunk", sys::as_bytes(std::string_view(content).substr(at, 65536))));
    }
    const ImportBytes one = ImportBytes().file("f" + std::to_string(i), content);
    sys::append(piece,
                sys::ByteSpan(one.so_far()).subspan(8));  // the eight bytes stand in the first piece only
    const sys::Fd memfd = sys::memfd_with("piece", piece).value();
    BOOST_REQUIRE(client.import("workspace", memfd.get(), true));
    piece.clear();
  }
  const ImportBytes tail;
  sys::Bytes end = ImportBytes().end();
  end.erase(end.begin(), end.begin() + 8);
  import(client, "workspace", end);
  const SnapshotId snapshot = client.turn_begin(begin_main(kTurnA)).value();
  const Collected all = collect(client, snapshot, "workspace");
  for (const auto& chunk : chunks) BOOST_REQUIRE(all.objects.contains(chunk));
  BOOST_TEST(all.bytes > kFiles * kSize);
  BOOST_TEST(all.objects.contains(client.digest(snapshot, "workspace")->content));

  // A walk given up in the middle leaves fsd ready for the next one.
  const auto given_up = client.objects(snapshot, "workspace", {}, [](const Object&) {
    return sys::Status(sys::fail(ErrorKind::refused, "enough"));
  });
  BOOST_TEST(given_up.error().text == "enough");
  BOOST_TEST(client.digest(snapshot, "workspace")->bytes == kFiles * kSize);
  (void)client.objects(snapshot, "workspace", {},
                       [](const Object&) { return sys::Status(sys::fail(ErrorKind::refused, "")); });
  BOOST_REQUIRE(client.release(snapshot));
  BOOST_TEST(client.info().has_value());
}

BOOST_AUTO_TEST_CASE(only_a_digest_lets_later_questions_pass) {
  Daemon daemon;
  Raw raw(sys::duplicate(daemon.socket.get()).value());
  Client client = daemon.client();
  const SnapshotId id = client.turn_begin(begin_main(kTurnA)).value();
  const auto call = [](int number, const std::string& method, const std::string& params) {
    return R"({"jsonrpc":"2.0","id":)" + std::to_string(number) + R"(,"method":")" + method +
           R"(","params":)" + params + "}\n";
  };
  const std::string of = std::to_string(id);
  // One send, so that both questions are there before the hasher's answer can be.
  raw.send(call(1, "snapshot.digest", R"({"snapshot":)" + of + R"(,"of":"workspace"})") +
           call(2, "fs.info", "{}"));
  BOOST_TEST(raw.receive().at("id").as_int64() == 2);
  BOOST_TEST(raw.receive().at("id").as_int64() == 1);
  raw.send(call(3, "snapshot.diff", R"({"from":)" + of + R"(,"to":)" + of + "}") + call(4, "fs.info", "{}"));
  BOOST_TEST(raw.receive().at("id").as_int64() == 3);
  BOOST_TEST(raw.receive().at("id").as_int64() == 4);
}

BOOST_AUTO_TEST_CASE(a_stream_that_was_abandoned_says_so) {
  Daemon daemon;
  Raw raw(sys::duplicate(daemon.socket.get()).value());
  Client client = daemon.client();
  import(client, "workspace", ImportBytes().root().file("f", "x").end());
  const std::string id = std::to_string(client.turn_begin(begin_main(kTurnA)).value());
  const auto objects = [&](bool next, int fds) {
    return R"({"jsonrpc":"2.0","id":1,"method":"snapshot.objects","params":{"snapshot":)" + id +
           R"(,"of":"workspace","next":)" + (next ? "true" : "false") + "}" + (fds > 0 ? ",\"fds\":1" : "") +
           "}\n";
  };
  raw.send(objects(true, 0));
  BOOST_TEST(raw.code() == kConflict);
  raw.send(objects(false, 0));
  BOOST_TEST(raw.code() == kInvalidParams);
  const sys::Fd odd = sys::memfd_with("have", sys::Bytes(33)).value();
  raw.send(objects(false, 1), {odd.get()});
  BOOST_TEST(raw.code() == kInvalidParams);
  const sys::Fd none = sys::memfd_with("have", {}).value();
  raw.send(objects(false, 1), {none.get()});
  BOOST_TEST(raw.receive().at("result").at("more") == false);
  raw.send(objects(true, 0));  // it is over
  BOOST_TEST(raw.code() == kConflict);
}

BOOST_AUTO_TEST_CASE(budgets_are_told_and_kept) {
  Daemon daemon({"--bytes", "1048576", "--inodes", "100"});
  Client client = daemon.client();
  BOOST_TEST(client.info()->budget_bytes == 1048576u);
  BOOST_TEST(client.info()->budget_inodes == 100u);
  const sys::Fd memfd =
      sys::memfd_with("big", ImportBytes().root().file("f", std::string(2 << 20, 'x')).end()).value();
  BOOST_TEST(client.import("workspace", memfd.get(), false).error().kind == ErrorKind::limit);
  import(client, "workspace", ImportBytes().root().file("f", "small").end());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::control
