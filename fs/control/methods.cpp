#include "fs/control/methods.h"

#include <boost/json/serialize.hpp>

#include "fs/control/params.h"
#include "fs/control/protocol.h"
#include "vmm/sys/memfd.h"

namespace turnbox::control {
namespace {

namespace json = boost::json;
using sys::ErrorKind;
using sys::Result;
using sys::Status;

constexpr std::string_view kInputPrefix = "input:";

Status no_fds(const Call& call) {
  if (call.fds.empty()) return {};
  return sys::fail(ErrorKind::invalid, "this method takes no descriptor");
}

Result<sys::Mapping> one_bulk(const Call& call) {
  if (call.fds.size() != 1) return sys::fail(ErrorKind::invalid, "this method takes exactly one memory file");
  return sys::map_sealed(call.fds[0].get(), kMaxBulk);
}

}  // namespace

Methods::~Methods() {
  owner_lane_.abandon();
  operators_lane_.abandon();
}

void Methods::Lane::abandon() {
  if (feed) feed->abandon();
  feed.reset();
}

void Methods::Lane::submit(Hasher::Job job) {
  abandon();
  hasher.submit(std::move(job));
}

void Methods::left(const Session& session) {
  world_.mounts.left(session.id);
  world_.versions.left(session.id);
  for (Lane* lane : {&owner_lane_, &operators_lane_}) {
    if (lane->session == session.id) lane->abandon();
  }
}

const Methods::Row* Methods::find(std::string_view name) {
  static const Row kRows[] = {
      {"fs.info", Who::anyone, &Methods::info},
      {"fs.import", Who::owner, &Methods::import},
      {"turn.begin", Who::owner, &Methods::turn_begin},
      {"stage.begin", Who::owner, &Methods::stage_begin},
      {"stage.seal", Who::owner, &Methods::stage_seal},
      {"turn.end", Who::owner, &Methods::turn_end},
      {"event.append", Who::owner, &Methods::event_append},
      {"workspace.epoch", Who::owner, &Methods::workspace_epoch},
      {"snapshot.digest", Who::anyone, &Methods::snapshot_digest, false},
      {"snapshot.objects", Who::anyone, &Methods::snapshot_objects},
      {"snapshot.diff", Who::anyone, &Methods::snapshot_diff},
      {"snapshot.release", Who::anyone, &Methods::snapshot_release},
      {"snapshot.take", Who::anyone, &Methods::snapshot_take},
      {"snapshot.list", Who::anyone, &Methods::snapshot_list},
      {"snapshot.fork", Who::anyone, &Methods::snapshot_fork},
      {"snapshot.drop", Who::anyone, &Methods::snapshot_drop},
      {"workspace.restore", Who::anyone, &Methods::workspace_restore},
      {"tree.list", Who::anyone, &Methods::tree_list},
      {"tree.read", Who::anyone, &Methods::tree_read},
      {"events.read", Who::anyone, &Methods::events_read},
      {"mount.attach", Who::anyone, &Methods::mount_attach},
      {"mount.detach", Who::anyone, &Methods::mount_detach},
      {"fs.stats", Who::anyone, &Methods::stats},
  };
  for (const Row& row : kRows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

Result<Answer> Methods::info(Call& call) {
  TRY(Params(call.params).finish());
  TRY(no_fds(call));
  const fs::Budget& budget = world_.tree.budget();
  const fs::Usage usage = world_.tree.usage();
  return Answer{
      {{"version", kVersion},
       {"budget", {{"bytes", budget.bytes}, {"inodes", budget.inodes}}},
       {"usage", {{"bytes", usage.bytes}, {"inodes", usage.inodes}}},
       {"workspace_epoch", world_.workspace.epoch()},
       {"confinement",
        {{"own_user", world_.confinement.own_user}, {"empty_root", world_.confinement.empty_root}}}},
      {}};
}

Result<Answer> Methods::import(Call& call) {
  Params given(call.params);
  TRY_ASSIGN(const std::string target, given.text("target"));
  TRY_ASSIGN(const bool more, given.flag("more"));
  TRY(given.finish());
  TRY_ASSIGN(const sys::Mapping piece, one_bulk(call));
  Result<const fs::Importer*> done = [&]() -> Result<const fs::Importer*> {
    if (target == "workspace") return world_.workspace.import(piece.bytes(), more);
    if (target.starts_with(kInputPrefix)) {
      return world_.turns.import_input(target.substr(kInputPrefix.size()), piece.bytes(), more);
    }
    return sys::fail(ErrorKind::invalid, "target is neither workspace nor input:NAME");
  }();
  if (!done) {
    world_.reclaimer.poke();
    return tl::make_unexpected(done.error());
  }
  return Answer{{{"entries", (*done)->entries()}, {"bytes", (*done)->bytes()}}, {}};
}

Result<uint64_t> Methods::take_snapshot(const std::string& turn) {
  TRY_ASSIGN(const turn::Turn* of, world_.turns.find(turn));
  return world_.snapshots.take(world_.workspace.root(), *of);
}

Result<Answer> Methods::turn_begin(Call& call) {
  Params given(call.params);
  turn::BeginTurn what;
  TRY_ASSIGN(what.turn, given.text("turn"));
  TRY_ASSIGN(what.demand, given.text("demand"));
  TRY_ASSIGN(what.thread, given.text("thread"));
  TRY_ASSIGN(what.thread_seq, given.number("thread_seq"));
  TRY_ASSIGN(what.tier, given.text("tier"));
  TRY_ASSIGN(what.inputs, given.texts("inputs"));
  TRY(given.finish());
  TRY(no_fds(call));
  TRY(world_.snapshots.room());
  const Status begun = world_.turns.begin(what);
  if (!begun) {
    world_.reclaimer.poke();
    return tl::make_unexpected(begun.error());
  }
  TRY_ASSIGN(const uint64_t snapshot, take_snapshot(what.turn));
  return Answer{{{"snapshot", snapshot}}, {}};
}

Result<Answer> Methods::stage_begin(Call& call) {
  Params given(call.params);
  TRY_ASSIGN(const std::string turn, given.text("turn"));
  TRY_ASSIGN(const std::string stage, given.text("stage"));
  TRY(given.finish());
  TRY(no_fds(call));
  auto dir = world_.turns.begin_stage(turn, stage);
  if (!dir) {
    world_.reclaimer.poke();
    return tl::make_unexpected(dir.error());
  }
  return Answer{{{"dir", *dir}}, {}};
}

Result<Answer> Methods::stage_seal(Call& call) {
  Params given(call.params);
  TRY_ASSIGN(const std::string turn, given.text("turn"));
  TRY_ASSIGN(const std::string stage, given.text("stage"));
  TRY(given.finish());
  TRY(no_fds(call));
  TRY(world_.snapshots.room());
  TRY(world_.turns.seal_stage(turn, stage));
  TRY_ASSIGN(const uint64_t snapshot, take_snapshot(turn));
  return Answer{{{"snapshot", snapshot}}, {}};
}

Result<Answer> Methods::event_append(Call& call) {
  Params given(call.params);
  TRY_ASSIGN(const std::string turn, given.text("turn"));
  TRY_ASSIGN(const json::object* event, given.object("event"));
  TRY(given.finish());
  TRY(no_fds(call));
  TRY_ASSIGN(const turn::Turn* of, world_.turns.find(turn));
  TRY(world_.events.append_own(of->events, json::serialize(*event)));
  return Answer{};
}

Result<Answer> Methods::workspace_epoch(Call& call) {
  TRY(Params(call.params).finish());
  TRY(no_fds(call));
  TRY_ASSIGN(const uint64_t epoch, world_.workspace.next_epoch());
  world_.reclaimer.poke();
  return Answer{{{"epoch", epoch}}, {}};
}

Result<Answer> Methods::snapshot_release(Call& call) {
  Params given(call.params);
  TRY_ASSIGN(const uint64_t snapshot, given.number("snapshot"));
  TRY(given.finish());
  TRY(no_fds(call));
  for (Lane* lane : {&owner_lane_, &operators_lane_}) {
    if (lane->snapshot == snapshot) lane->abandon();
  }
  // Operators keep their hands off what turns need; the owner may release whatever has no name.
  const sys::Status own = world_.versions.release(snapshot, call.session.id);
  if (own) return Answer{};
  if (call.session.rights != Session::Rights::owner) return tl::make_unexpected(own.error());
  TRY(world_.snapshots.release(snapshot));
  return Answer{};
}

Result<Answer> Methods::events_read(Call& call) {
  Params given(call.params);
  TRY_ASSIGN(const std::string turn, given.text("turn"));
  TRY(given.finish());
  TRY(no_fds(call));
  TRY_ASSIGN(const turn::Turn* of, world_.turns.find(turn));
  TRY_ASSIGN(const std::string log, world_.events.read(of->events));
  Answer answer;
  TRY_ASSIGN(answer.fds.emplace_back(), sys::memfd_with("turnbox-events", sys::as_bytes(log)));
  return answer;
}

Result<Answer> Methods::stats(Call& call) {
  TRY(Params(call.params).finish());
  TRY(no_fds(call));
  return Answer{world_.stats(), {}};
}

}  // namespace turnbox::control
