#include "fs/turn/turns.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <cstring>

#include "fs/turn/lift.h"
#include "fs/turn/names.h"

namespace turnbox::turn {
namespace {

using fs::ZoneState;
using fs::ZoneUse;
using sys::ErrorKind;
using sys::Result;
using sys::Status;

const fs::Caller kHost{.host = true};
constexpr size_t kMostStages = 99;
constexpr fs::Zone kFixed{ZoneState::sealed, ZoneUse::plain};

// Members in the order of RFC 8785; no value needs more than JSON's own escapes.
std::string turn_json(const BeginTurn& what) {
  return boost::json::serialize(boost::json::object{{"demand", what.demand},
                                                    {"thread", what.thread},
                                                    {"thread_seq", what.thread_seq},
                                                    {"tier", what.tier},
                                                    {"turn", what.turn}});
}

}  // namespace

Result<Turns> Turns::make(fs::Tree& tree, Events& events, Sweeper& sweeper, fs::ZoneId host_zone) {
  Turns turns(tree, events, sweeper);
  turns.host_zone_ = host_zone;
  turns.device_root_ = tree.make_root(host_zone, 0755);
  turns.aside_ = tree.make_root(host_zone, 0700);
  TRY_ASSIGN(turns.by_id_, turns.make_dir(turns.device_root_, "by-id", host_zone));
  return turns;
}

Result<fs::Ino> Turns::make_dir(fs::Ino parent, std::string_view name, fs::ZoneId zone, uint16_t mode) {
  const std::string what = "cannot make " + std::string(name);
  TRY_ASSIGN(
      const fs::Attr made,
      lift(tree_.create(parent, name, {.type = fs::Type::directory, .mode = mode, .zone = zone}, kHost),
           what));
  return made.ino;
}

Status Turns::make_file(fs::Ino parent, std::string_view name, std::string_view content) {
  const std::string what = "cannot make " + std::string(name);
  TRY_ASSIGN(const fs::Attr made,
             lift(tree_.create(parent, name, {.type = fs::Type::regular, .mode = 0444}, kHost), what));
  size_t at = 0;
  const auto fill = [&](std::span<std::byte> into) {
    std::memcpy(into.data(), content.data() + at, into.size());
    at += into.size();
  };
  TRY(lift(tree_.write(made.ino, 0, content.size(), fill, false, kHost), what));
  return {};
}

Result<fs::Ino> Turns::pending_dir() {
  if (pending_dir_ != fs::kNoIno) return pending_dir_;
  pending_zone_ = tree_.add_zone(kFixed);
  TRY_ASSIGN(pending_dir_, make_dir(aside_, "inputs", pending_zone_));
  return pending_dir_;
}

Result<const fs::Importer*> Turns::import_input(const std::string& name, std::span<const std::byte> piece,
                                                bool more) {
  if (!is_entry_name(name)) {
    return sys::fail(ErrorKind::invalid,
                     "an input's name is one directory entry of 1 to 255 bytes, without '/'");
  }
  TRY_ASSIGN(const fs::Ino dir, pending_dir());
  auto at = pending_.find(name);
  if (at != pending_.end() && at->second.whole) {
    return sys::fail(ErrorKind::conflict,
                     "the input " + name + " was imported already; begin the turn first");
  }
  if (at == pending_.end()) {
    at = pending_.emplace(name, PendingInput{fs::Importer(tree_, dir, name, pending_zone_)}).first;
  }
  PendingInput& input = at->second;
  Status fed = input.importer.feed(piece);
  if (fed && !more) fed = input.importer.finish();
  if (!fed) {
    pending_.erase(at);
    TRY(lift(sweeper_.discard(dir, name), "cannot remove a broken import"));
    return tl::make_unexpected(fed.error());
  }
  input.whole = !more;
  return &input.importer;
}

Status Turns::check_begin(const BeginTurn& what) const {
  if (!is_turn_id(what.turn)) return sys::fail(ErrorKind::invalid, "turn is not a ULID of 26 characters");
  if (!is_name(what.demand)) return sys::fail(ErrorKind::invalid, "demand is not a name");
  if (!is_name(what.thread) || what.thread == "by-id") {
    return sys::fail(ErrorKind::invalid,
                     "thread is not a name, or is by-id, which stands for the turns themselves");
  }
  if (what.tier != "hardware" && what.tier != "emulated") {
    return sys::fail(ErrorKind::invalid, "tier is neither hardware nor emulated");
  }
  if (turns_.contains(what.turn)) {
    return sys::fail(ErrorKind::conflict, "the turn " + what.turn + " exists; a turn id is used once");
  }
  for (const auto& [id, turn] : turns_) {
    if (turn.thread == what.thread && !turn.ended) {
      return sys::fail(ErrorKind::conflict,
                       "the thread " + what.thread + " is in turn " + id + "; end that first");
    }
  }
  for (const auto& name : what.inputs) {
    const auto input = pending_.find(name);
    if (input == pending_.end())
      return sys::fail(ErrorKind::not_found, "the input " + name + " was not imported");
    if (!input->second.whole)
      return sys::fail(ErrorKind::conflict, "the import of input " + name + " has not ended");
  }
  if (what.inputs.size() != pending_.size()) {
    return sys::fail(ErrorKind::conflict, "inputs must name each imported input once, and only those");
  }
  return {};
}

Status Turns::fill_turn(fs::Ino dir, const BeginTurn& what, Turn& turn) {
  TRY(make_file(dir, "turn.json", turn_json(what)));
  TRY_ASSIGN(turn.stages_dir, make_dir(dir, "stages", host_zone_));
  TRY_ASSIGN(turn.events, lift(events_.make(dir), "cannot make events"));
  TRY_ASSIGN(turn.inputs, pending_dir());
  turn.input_names = what.inputs;
  std::sort(turn.input_names.begin(), turn.input_names.end());
  return {};
}

// Another symlink takes the old one's place, so that a guest never meets the name missing or an old target
// cached.
Status Turns::show(const BeginTurn& what, fs::Ino dir) {
  const std::string target = "by-id/" + what.turn;
  TRY(lift(tree_.create(aside_, "thread", {.type = fs::Type::symlink, .mode = 0777, .target = target}, kHost),
           "cannot make the thread's link"));
  TRY(lift(tree_.rename(aside_, "inputs", dir, "inputs", 0, kHost), "cannot hand over the inputs"));
  TRY(lift(tree_.rename(aside_, "turn", by_id_, what.turn, 0, kHost), "cannot show the turn"));
  return lift(tree_.rename(aside_, "thread", device_root_, what.thread, 0, kHost),
              "cannot point the thread at it");
}

Status Turns::begin(const BeginTurn& what) {
  TRY(check_begin(what));
  Turn turn;
  turn.thread = what.thread;
  TRY_ASSIGN(turn.dir, make_dir(aside_, "turn", host_zone_));
  Status begun = fill_turn(turn.dir, what, turn);
  if (begun) begun = show(what, turn.dir);
  if (!begun) {
    // The inputs stay for another try.
    (void)tree_.rename(turn.dir, "inputs", aside_, "inputs", 0, kHost);
    (void)sweeper_.discard(aside_, "turn");
    (void)sweeper_.discard(by_id_, what.turn);
    (void)sweeper_.discard(aside_, "thread");
    return begun;
  }
  pending_dir_ = fs::kNoIno;
  pending_.clear();
  turns_.emplace(what.turn, std::move(turn));
  return {};
}

Result<const Turn*> Turns::find(const std::string& turn) const {
  const auto found = turns_.find(turn);
  if (found == turns_.end()) return sys::fail(ErrorKind::not_found, "no turn " + turn);
  return &found->second;
}

Result<Turn*> Turns::live(const std::string& turn) {
  const auto found = turns_.find(turn);
  if (found == turns_.end()) return sys::fail(ErrorKind::not_found, "no turn " + turn);
  if (found->second.ended) return sys::fail(ErrorKind::conflict, "the turn " + turn + " has ended");
  return &found->second;
}

Status Turns::fill_stage(fs::Ino dir, const Turn& turn, Stage& stage) {
  const fs::ZoneId inputs_zone = tree_.add_zone(kFixed);
  TRY_ASSIGN(const fs::Ino inputs, make_dir(dir, "inputs", inputs_zone));
  for (const auto& name : turn.input_names) {
    TRY_ASSIGN(const fs::Attr from, lift(tree_.lookup(turn.inputs, name), "the input " + name));
    TRY(lift(tree_.clone(tree_, from.ino, inputs, name, inputs_zone), "cannot hand over the input " + name));
  }
  stage.outputs_zone = tree_.add_zone({ZoneState::writable, ZoneUse::plain});
  TRY_ASSIGN(stage.outputs, make_dir(dir, "outputs", stage.outputs_zone, 0777));
  TRY(make_dir(dir, "projections", host_zone_));
  return {};
}

Result<std::string> Turns::begin_stage(const std::string& turn_id, const std::string& name) {
  if (!is_name(name)) return sys::fail(ErrorKind::invalid, "stage is not a name");
  TRY_ASSIGN(Turn * turn, live(turn_id));
  for (const auto& other : turn->stages) {
    if (other.name == name)
      return sys::fail(ErrorKind::conflict, "the stage " + name + " exists in this turn");
    if (!other.sealed)
      return sys::fail(ErrorKind::conflict, "the stage " + other.name + " is open; seal it first");
  }
  if (turn->stages.size() >= kMostStages) return sys::fail(ErrorKind::limit, "a turn has at most 99 stages");
  char number[8];
  std::snprintf(number, sizeof number, "%02u-", static_cast<unsigned>(turn->stages.size() + 1));
  Stage stage{.name = name, .dir = number + name};
  TRY_ASSIGN(const fs::Ino dir, make_dir(aside_, "stage", host_zone_));
  const Status filled = fill_stage(dir, *turn, stage);
  if (!filled) {
    TRY(lift(sweeper_.discard(aside_, "stage"), "cannot remove a half-made stage"));
    return tl::make_unexpected(filled.error());
  }
  TRY(lift(tree_.rename(aside_, "stage", turn->stages_dir, stage.dir, 0, kHost), "cannot show the stage"));
  turn->stages.push_back(stage);
  return stage.dir;
}

void Turns::seal(Stage& stage) {
  tree_.set_zone_state(stage.outputs_zone, ZoneState::sealed);
  stage.sealed = true;
}

Status Turns::seal_stage(const std::string& turn_id, const std::string& name) {
  TRY_ASSIGN(Turn * turn, live(turn_id));
  for (auto& stage : turn->stages) {
    if (stage.name != name) continue;
    if (stage.sealed) return sys::fail(ErrorKind::conflict, "the stage " + name + " is sealed already");
    seal(stage);
    return {};
  }
  return sys::fail(ErrorKind::not_found, "no stage " + name + " in turn " + turn_id);
}

Status Turns::end(const std::string& turn_id) {
  TRY_ASSIGN(Turn * turn, live(turn_id));
  for (auto& stage : turn->stages) seal(stage);
  events_.seal(turn->events);
  turn->ended = true;
  return {};
}

}  // namespace turnbox::turn
