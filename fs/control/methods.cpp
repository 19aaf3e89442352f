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

Status no_fds(const Methods::Fds& fds) {
  if (fds.empty()) return {};
  return sys::fail(ErrorKind::invalid, "this method takes no descriptor");
}

Result<sys::Mapping> one_bulk(const Methods::Fds& fds) {
  if (fds.size() != 1) return sys::fail(ErrorKind::invalid, "this method takes exactly one memory file");
  return sys::map_sealed(fds[0].get(), kMaxBulk);
}

}  // namespace

Methods::~Methods() {
  if (feed_) feed_->abandon();
}

const Methods::Row* Methods::find(std::string_view name) {
  static const Row kRows[] = {
      {"fs.info", &Methods::info},
      {"fs.import", &Methods::import},
      {"turn.begin", &Methods::turn_begin},
      {"stage.begin", &Methods::stage_begin},
      {"stage.seal", &Methods::stage_seal},
      {"turn.end", &Methods::turn_end},
      {"event.append", &Methods::event_append},
      {"workspace.epoch", &Methods::workspace_epoch},
      {"snapshot.digest", &Methods::snapshot_digest, false},
      {"snapshot.objects", &Methods::snapshot_objects},
      {"snapshot.diff", &Methods::snapshot_diff},
      {"snapshot.release", &Methods::snapshot_release},
      {"events.read", &Methods::events_read},
      {"fs.stats", &Methods::stats},
  };
  for (const Row& row : kRows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

Result<Answer> Methods::info(const json::object& params, Fds& fds) {
  TRY(Params(params).finish());
  TRY(no_fds(fds));
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

Result<Answer> Methods::import(const json::object& params, Fds& fds) {
  Params given(params);
  TRY_ASSIGN(const std::string target, given.text("target"));
  TRY_ASSIGN(const bool more, given.flag("more"));
  TRY(given.finish());
  TRY_ASSIGN(const sys::Mapping piece, one_bulk(fds));
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

Result<Answer> Methods::turn_begin(const json::object& params, Fds& fds) {
  Params given(params);
  turn::BeginTurn what;
  TRY_ASSIGN(what.turn, given.text("turn"));
  TRY_ASSIGN(what.demand, given.text("demand"));
  TRY_ASSIGN(what.thread, given.text("thread"));
  TRY_ASSIGN(what.thread_seq, given.number("thread_seq"));
  TRY_ASSIGN(what.tier, given.text("tier"));
  TRY_ASSIGN(what.inputs, given.texts("inputs"));
  TRY(given.finish());
  TRY(no_fds(fds));
  TRY(world_.snapshots.room());
  const Status begun = world_.turns.begin(what);
  if (!begun) {
    world_.reclaimer.poke();
    return tl::make_unexpected(begun.error());
  }
  TRY_ASSIGN(const uint64_t snapshot, take_snapshot(what.turn));
  return Answer{{{"snapshot", snapshot}}, {}};
}

Result<Answer> Methods::stage_begin(const json::object& params, Fds& fds) {
  Params given(params);
  TRY_ASSIGN(const std::string turn, given.text("turn"));
  TRY_ASSIGN(const std::string stage, given.text("stage"));
  TRY(given.finish());
  TRY(no_fds(fds));
  auto dir = world_.turns.begin_stage(turn, stage);
  if (!dir) {
    world_.reclaimer.poke();
    return tl::make_unexpected(dir.error());
  }
  return Answer{{{"dir", *dir}}, {}};
}

Result<Answer> Methods::stage_seal(const json::object& params, Fds& fds) {
  Params given(params);
  TRY_ASSIGN(const std::string turn, given.text("turn"));
  TRY_ASSIGN(const std::string stage, given.text("stage"));
  TRY(given.finish());
  TRY(no_fds(fds));
  TRY(world_.snapshots.room());
  TRY(world_.turns.seal_stage(turn, stage));
  TRY_ASSIGN(const uint64_t snapshot, take_snapshot(turn));
  return Answer{{{"snapshot", snapshot}}, {}};
}

Result<Answer> Methods::event_append(const json::object& params, Fds& fds) {
  Params given(params);
  TRY_ASSIGN(const std::string turn, given.text("turn"));
  TRY_ASSIGN(const json::object* event, given.object("event"));
  TRY(given.finish());
  TRY(no_fds(fds));
  TRY_ASSIGN(const turn::Turn* of, world_.turns.find(turn));
  TRY(world_.events.append_own(of->events, json::serialize(*event)));
  return Answer{};
}

Result<Answer> Methods::workspace_epoch(const json::object& params, Fds& fds) {
  TRY(Params(params).finish());
  TRY(no_fds(fds));
  TRY_ASSIGN(const uint64_t epoch, world_.workspace.next_epoch());
  world_.reclaimer.poke();
  return Answer{{{"epoch", epoch}}, {}};
}

Result<Answer> Methods::snapshot_release(const json::object& params, Fds& fds) {
  Params given(params);
  TRY_ASSIGN(const uint64_t snapshot, given.number("snapshot"));
  TRY(given.finish());
  TRY(no_fds(fds));
  if (feed_ && feed_snapshot_ == snapshot) {
    feed_->abandon();
    feed_.reset();
  }
  TRY(world_.snapshots.release(snapshot));
  return Answer{};
}

Result<Answer> Methods::events_read(const json::object& params, Fds& fds) {
  Params given(params);
  TRY_ASSIGN(const std::string turn, given.text("turn"));
  TRY(given.finish());
  TRY(no_fds(fds));
  TRY_ASSIGN(const turn::Turn* of, world_.turns.find(turn));
  TRY_ASSIGN(const std::string log, world_.events.read(of->events));
  Answer answer;
  TRY_ASSIGN(answer.fds.emplace_back(), sys::memfd_with("turnbox-events", sys::as_bytes(log)));
  return answer;
}

Result<Answer> Methods::stats(const json::object& params, Fds& fds) {
  TRY(Params(params).finish());
  TRY(no_fds(fds));
  return Answer{world_.stats(), {}};
}

}  // namespace turnbox::control
