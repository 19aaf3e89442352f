// A stored version fed into a fresh fsd is the version that was stored: same content digest, same meta
// digest.
#include <sys/sysmacros.h>

#include <boost/test/unit_test.hpp>

#include "broker/demand/feed.h"
#include "broker/turn/ledger.h"
#include "tests/guest/control/fsd_process.h"
#include "tests/support/temp_dir.h"

namespace turnbox::control {
namespace {

constexpr char kTurn[] = "01JDRY0000000000000000000A";

struct Kept {
  SubtreeDigest digest;
  SnapshotId snapshot = 0;
};

Kept begin_turn(Client& files) {
  Kept kept;
  kept.snapshot = files
                      .turn_begin({.turn = kTurn,
                                   .demand = "run-1",
                                   .thread = "main",
                                   .thread_seq = 1,
                                   .tier = "emulated",
                                   .inputs = {}})
                      .value();
  kept.digest = files.digest(kept.snapshot, "workspace").value();
  return kept;
}

// fsd's workspace, as one record of a store.
void commit(turn::Ledger& ledger, Client& files, const Kept& kept) {
  bool more = true;
  store::StreamSource objects([&](bool restart) -> sys::Result<std::optional<sys::Fd>> {
    if (!restart && !more) return std::optional<sys::Fd>();
    TRY_ASSIGN(ObjectPiece piece, files.objects_piece(kept.snapshot, "workspace", {}, restart));
    more = piece.more;
    return std::optional(std::move(piece.memfd));
  });
  turn::Draft draft;
  draft.turn = kTurn;
  draft.demand = "run-1";
  draft.tier_given = "emulated";
  draft.workspace_after = turn::TreeRef{store::ObjectKind::dir, kept.digest.content, kept.digest.meta};
  const auto committed = ledger.commit(draft, objects);
  BOOST_REQUIRE_MESSAGE(committed.has_value(), (committed ? "" : committed.error().text));
}

// What an import says, in the order of the walk.
void import(Client& files, const std::function<void(demand::ImportStream&)>& fill) {
  const demand::TakePiece take = [&](sys::Fd memfd, bool more) -> sys::Status {
    return files.import("workspace", memfd.get(), more).map([](const Imported&) {});
  };
  demand::ImportStream out(take, size_t{1} << 20);
  fill(out);
  const auto done = out.finish();
  BOOST_REQUIRE_MESSAGE(done.has_value(), (done ? "" : done.error().text));
}

sys::Bytes extent(uint64_t size, uint64_t offset, const std::string& bytes) {
  sys::Bytes body;
  sys::append_le(body, size);
  sys::append_le(body, offset);
  sys::append_le(body, static_cast<uint32_t>(bytes.size()));
  sys::append(body, sys::as_bytes(bytes));
  return body;
}

struct Fixture {
  test::TempDir dir;
  turn::Ledger ledger = turn::Ledger::open(dir.path()).value();
  Daemon one{{}, false}, two{{}, false};
  Client from = one.client(), to = two.client();

  // Feeds what `from` holds into `to` through the store, and compares.
  void check_round_trip() {
    const Kept before = begin_turn(from);
    commit(ledger, from, before);
    const store::Reader reader = ledger.store().read().value();
    const turn::StoredTree tree(turn::fetch_from(reader, "local"),
                                {store::ObjectKind::dir, before.digest.content, before.digest.meta});
    const auto fed = demand::feed_version(tree, to, "workspace");
    BOOST_REQUIRE_MESSAGE(fed.has_value(), (fed ? "" : fed.error().text));
    const Kept after = begin_turn(to);
    BOOST_TEST(sys::to_hex(after.digest.content) == sys::to_hex(before.digest.content));
    BOOST_TEST(sys::to_hex(after.digest.meta) == sys::to_hex(before.digest.meta));
    BOOST_TEST(after.digest.files == before.digest.files);
    BOOST_TEST(after.digest.bytes == before.digest.bytes);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(feed, Fixture)

BOOST_AUTO_TEST_CASE(every_kind_of_entry_comes_back) {
  import(from, [](demand::ImportStream& out) {
    demand::ImportHead head{.type = 'd', .mode = 01755, .uid = 1, .gid = 2, .mtime_sec = -5, .mtime_nsec = 999'999'999};
  (void)out.put(head, "");
  (void)out.put_xattrs("", {{"user.root", "r"}});
  head = {.type = 'c', .mode = 0600, .rdev = (259 << 8) | 0x45 | (0x123U << 20)};
  (void)out.put(head, "a-char");
  head = {.type = 'b', .mode = 0660, .uid = 7, .rdev = (8 << 8) | 1};
  (void)out.put(head, "b-block");
  head = {.type = 'd', .mode = 02770, .gid = 100, .mtime_sec = 1'700'000'000};
  (void)out.put(head, "dir");
  head = {.type = 'f', .mode = 04755, .uid = 1000, .gid = 1000, .mtime_sec = 12, .mtime_nsec = 34};
  (void)out.put(head, "dir/suid", extent(5, 0, "hello"));
  (void)out.put_xattrs("dir/suid", {{"security.capability", std::string("\1\0\0\2", 4)},
                                    {"trusted.t", ""},
                                    {"user.long", std::string(65'536, 'v')}});
  (void)out.put({.type = 'd', .mode = 0}, "empty");
  (void)out.put({.type = 'f', .mode = 0444}, "file", sys::Bytes(8));
  (void)out.put({.type = 'h'}, "hard", sys::as_bytes(std::string_view("dir/suid")));
  (void)out.put({.type = 'p', .mode = 0622}, "pipe");
  (void)out.put({.type = 's', .mode = 0755}, "socket");
  (void)out.put({.type = 'l', .mode = 0777}, "soft", sys::as_bytes(std::string_view("../\xff/nowhere")));
  (void)out.put({.type = 'd', .mode = 0755}, std::string(255, '\xfe'));
});
check_round_trip();
}  // namespace turnbox::control

BOOST_AUTO_TEST_CASE(holes_and_many_pieces_come_back) {
  const uint64_t size = (uint64_t{5} << 30) + 17;
  import(from, [&](demand::ImportStream& out) {
    (void)out.put({.type = 'd', .mode = 0755}, "");
  std::string noise(3 << 20, 'n');
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * 2654435761U >> 13);
  for (int i = 0; i < 5; ++i) {
    (void)out.put({.type = 'f', .mode = 0644}, "noise-" + std::to_string(i),
                  extent(noise.size() + 100, 50, noise));
  }
  (void)out.put({.type = 'f', .mode = 0644}, "sparse", extent(size, size - 3, "end"));
  (void)out.put({.type = 'f', .mode = 0644}, "zeros", extent(300'000, 100'000, std::string(100'000, '\0')));
});
check_round_trip();
// What was a hole is one again, and zeros became one: 5 × 3 MiB and little else.
BOOST_TEST(to.info().value().used_bytes < (uint64_t{16} << 20));
}

BOOST_AUTO_TEST_CASE(many_entries_come_back) {
  import(from, [](demand::ImportStream& out) {
    (void)out.put({.type = 'd', .mode = 0755}, "");
  for (int i = 100; i < 400; ++i) {
    const std::string parent = "dir-" + std::to_string(i);
    (void)out.put({.type = 'd', .mode = 0755}, parent);
    for (int j = 100; j < 200; ++j) {
      (void)out.put({.type = 'f', .mode = 0644, .mtime_sec = j}, parent + "/" + std::to_string(j),
                    extent(3, 0, std::to_string(j)));
    }
  }
});
check_round_trip();
}

BOOST_AUTO_TEST_CASE(an_object_that_is_not_there_is_named_and_the_receiver_stays_empty) {
  import(from, [](demand::ImportStream& out) { (void)out.put({.type = 'd', .mode = 0755}, "");
});
const Kept before = begin_turn(from);
const store::Reader reader = ledger.store().read().value();
const turn::StoredTree tree(turn::fetch_from(reader, "local"),
                            {store::ObjectKind::dir, before.digest.content, before.digest.meta});
const auto fed = demand::feed_version(tree, to, "workspace");
BOOST_REQUIRE(!fed.has_value());
BOOST_TEST(fed.error().text.find("is missing") != std::string::npos, fed.error().text);
BOOST_TEST(begin_turn(to).digest.files == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::control
