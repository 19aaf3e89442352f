// The methods whose work is done by the hasher.
#include "fs/control/change_list.h"
#include "fs/control/methods.h"
#include "fs/control/params.h"
#include "fs/control/protocol.h"
#include "fs/tree/diff.h"
#include "fs/turn/lift.h"
#include "vmm/sys/memfd.h"

namespace turnbox::control {
namespace {

namespace json = boost::json;
using sys::ErrorKind;
using sys::Result;
using sys::Status;

struct Diff {
  uint64_t added = 0, changed = 0, removed = 0;
  sys::Bytes rows;
};

Result<Answer> answer_of(const Diff& diff) {
  if (diff.rows.size() > kMaxBulk) {
    return sys::fail(ErrorKind::limit, "the change list is larger than 256 MiB; compare nearer snapshots");
  }
  Answer answer{{{"added", diff.added}, {"changed", diff.changed}, {"removed", diff.removed}}, {}};
  TRY_ASSIGN(answer.fds.emplace_back(), sys::memfd_with("turnbox-changes", diff.rows));
  return answer;
}

Result<Answer> answer_of(const fs::Expected<fs::TreeDigest>& digest) {
  if (!digest) return turn::error_of(digest.error(), "cannot digest the subtree");
  return Answer{{{"kind", fs::name_of(digest->kind)},
                 {"content", sys::to_hex(digest->content)},
                 {"meta", sys::to_hex(digest->meta)},
                 {"files", digest->files},
                 {"dirs", digest->dirs},
                 {"bytes", digest->bytes}},
                {}};
}

Result<Answer> answer_of(Result<Piece> piece) {
  if (!piece) return tl::make_unexpected(piece.error());
  Answer answer{{{"objects", piece->objects}, {"more", piece->more}}, {}};
  answer.fds.push_back(std::move(piece->file));
  return answer;
}

}  // namespace

Result<Methods::Subtree> Methods::subtree(const json::object& params) {
  Params given(params);
  TRY_ASSIGN(const uint64_t snapshot, given.number("snapshot"));
  TRY_ASSIGN(const std::string of, given.text("of"));
  TRY(given.finish());
  TRY_ASSIGN(turn::Lease lease, world_.snapshots.find(snapshot));
  TRY_ASSIGN(const fs::Ino root, turn::Snapshots::resolve(*lease, of));
  return Subtree{std::move(lease), root};
}

void Methods::snapshot_digest(Call& call, const Reply& reply) {
  auto what = subtree(call.params);
  if (!what) return reply(tl::make_unexpected(what.error()));
  if (!call.fds.empty()) return reply(sys::fail(ErrorKind::invalid, "this method takes no descriptor"));
  auto digest = std::make_shared<fs::Expected<fs::TreeDigest>>();
  lane_of(call.session)
      .submit(
          {.work = [held = what->lease.get(), root = what->root, digest](
                       fs::DigestCache& cache) { *digest = fs::digest_tree(held->snapshot, root, cache); },
           .done = [lease = what->lease, digest, reply] { reply(answer_of(*digest)); }});
}

// The turn's last snapshot is taken at once; only the digest of its event log is computed aside.
void Methods::turn_end(Call& call, const Reply& reply) {
  struct Ended {
    uint64_t snapshot;
    uint64_t lines;
    turn::Lease lease;
  };
  auto ended = [&]() -> Result<Ended> {
    Params given(call.params);
    TRY_ASSIGN(const std::string turn, given.text("turn"));
    TRY_ASSIGN(const std::string status, given.text("status"));
    TRY(given.finish());
    if (status != "completed" && status != "failed" && status != "cancelled") {
      return sys::fail(ErrorKind::invalid, "status is none of completed, failed, cancelled");
    }
    if (!call.fds.empty()) return sys::fail(ErrorKind::invalid, "this method takes no descriptor");
    TRY(world_.snapshots.room());
    TRY(world_.turns.end(turn));
    TRY_ASSIGN(const uint64_t snapshot, take_snapshot(turn));
    TRY_ASSIGN(turn::Lease lease, world_.snapshots.find(snapshot));
    return Ended{snapshot, world_.events.lines(lease->events), std::move(lease)};
  }();
  if (!ended) return reply(tl::make_unexpected(ended.error()));
  auto digest = std::make_shared<fs::Expected<fs::TreeDigest>>();
  lane_of(call.session)
      .submit({.work =
                   [held = ended->lease.get(), digest](fs::DigestCache& cache) {
                     *digest = fs::digest_tree(held->snapshot, held->events, cache);
                   },
               .done =
                   [ended = *ended, digest, reply] {
                     if (!*digest)
                       return reply(turn::error_of(digest->error(), "cannot digest the event log"));
                     reply(Answer{{{"snapshot", ended.snapshot},
                                   {"events", ended.lines},
                                   {"events_digest", sys::to_hex((*digest)->content)}},
                                  {}});
                   }});
}

void Methods::snapshot_diff(Call& call, const Reply& reply) {
  using Pair = std::pair<turn::Lease, turn::Lease>;
  auto leases = [&]() -> Result<Pair> {
    Params given(call.params);
    TRY_ASSIGN(const uint64_t from, given.number("from"));
    TRY_ASSIGN(const uint64_t to, given.number("to"));
    TRY(given.finish());
    if (!call.fds.empty()) return sys::fail(ErrorKind::invalid, "this method takes no descriptor");
    Pair pair;
    TRY_ASSIGN(pair.first, world_.snapshots.find(from));
    TRY_ASSIGN(pair.second, world_.snapshots.find(to));
    if (pair.first->tree != pair.second->tree) {
      return sys::fail(
          ErrorKind::conflict,
          "these snapshots are of a workspace and a fork, or of two forks; compare their digests");
    }
    return pair;
  }();
  if (!leases) return reply(tl::make_unexpected(leases.error()));
  auto diff = std::make_shared<Diff>();
  const turn::Held* from = leases->first.get();
  const turn::Held* to = leases->second.get();
  lane_of(call.session)
      .submit({.work =
                   [from, to, diff](fs::DigestCache&) {
                     fs::diff(from->snapshot, from->workspace, to->snapshot, to->workspace,
                              [&](fs::Change change, fs::Type type, std::string_view path) {
                                ++(change == fs::Change::added     ? diff->added
                                   : change == fs::Change::removed ? diff->removed
                                                                   : diff->changed);
                                append_change(diff->rows, static_cast<char>(change), letter_of(type), path);
                              });
                   },
               .done = [held = *leases, diff, reply] { reply(answer_of(*diff)); }});
}

Status Methods::start_feed(Call& call, uint64_t snapshot, const std::string& of) {
  TRY_ASSIGN(turn::Lease lease, world_.snapshots.find(snapshot));
  TRY_ASSIGN(const fs::Ino root, turn::Snapshots::resolve(*lease, of));
  if (call.fds.size() != 1)
    return sys::fail(ErrorKind::invalid, "the first call takes one memory file of digests");
  TRY_ASSIGN(const sys::Mapping known, sys::map_sealed(call.fds[0].get(), kMaxBulk));
  constexpr size_t kSize = sizeof(sys::Digest::bytes);
  if (known.bytes().size() % kSize != 0) return sys::fail(ErrorKind::invalid, "digests are 32 bytes each");
  std::unordered_set<sys::Digest> have;
  for (size_t at = 0; at < known.bytes().size(); at += kSize) {
    sys::Digest digest;
    std::memcpy(digest.bytes.data(), known.bytes().data() + at, kSize);
    have.insert(digest);
  }
  auto feed = std::make_shared<ObjectFeed>(world_.io, std::move(have));
  Lane& lane = lane_of(call.session);
  lane.submit({.work = [feed, held = lease.get(),
                        root](fs::DigestCache& cache) { feed->run(held->snapshot, root, cache); },
               .done = [lease] { (void)lease; }});
  lane.feed = std::move(feed);
  lane.session = call.session.id;
  lane.snapshot = snapshot;
  lane.of = of;
  return {};
}

void Methods::snapshot_objects(Call& call, const Reply& reply) {
  Lane& lane = lane_of(call.session);
  auto ready = [&]() -> Status {
    Params given(call.params);
    TRY_ASSIGN(const uint64_t snapshot, given.number("snapshot"));
    TRY_ASSIGN(const std::string of, given.text("of"));
    TRY_ASSIGN(const bool next, given.flag("next"));
    TRY(given.finish());
    if (!next) return start_feed(call, snapshot, of);
    if (!call.fds.empty()) return sys::fail(ErrorKind::invalid, "only the first call takes a descriptor");
    if (!lane.feed || lane.feed->over() || lane.session != call.session.id || lane.snapshot != snapshot ||
        lane.of != of) {
      return sys::fail(ErrorKind::conflict,
                       "no object stream of this subtree is open; start it with next false");
    }
    return {};
  }();
  if (!ready) return reply(tl::make_unexpected(ready.error()));
  lane.feed->ask([reply](Result<Piece> piece) { reply(answer_of(std::move(piece))); });
}

}  // namespace turnbox::control
