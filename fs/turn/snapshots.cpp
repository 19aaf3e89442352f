#include "fs/turn/snapshots.h"

#include "fs/turn/lift.h"

namespace turnbox::turn {

sys::Status Snapshots::room() const {
  if (held_.size() < kMost) return {};
  return sys::fail(sys::ErrorKind::limit, "256 snapshots are held; release some first");
}

uint64_t Snapshots::take(fs::Ino workspace, const Turn& turn) {
  const auto give_back = [tree = &tree_, released = released_](Held* held) {
    tree->release(std::move(held->snapshot));
    delete held;
    released();
  };
  std::shared_ptr<Held> held(
      new Held{
          .snapshot = tree_.snapshot(), .workspace = workspace, .inputs = turn.inputs, .events = turn.events},
      give_back);
  for (const Stage& stage : turn.stages) held->outputs.emplace_back(stage.name, stage.outputs);
  const uint64_t id = held->snapshot.id();
  held_.emplace(id, std::move(held));
  return id;
}

sys::Result<Lease> Snapshots::find(uint64_t id) const {
  const auto found = held_.find(id);
  if (found == held_.end()) return sys::fail(sys::ErrorKind::not_found, "no snapshot " + std::to_string(id));
  return found->second;
}

sys::Status Snapshots::release(uint64_t id) {
  if (held_.erase(id) == 0) return sys::fail(sys::ErrorKind::not_found, "no snapshot " + std::to_string(id));
  return {};
}

sys::Result<fs::Ino> Snapshots::resolve(const Held& held, std::string_view of) {
  constexpr std::string_view kInputs = "inputs/", kOutputs = "outputs/";
  if (of == "workspace") return held.workspace;
  if (of == "events") return held.events;
  if (of.starts_with(kInputs)) {
    TRY_ASSIGN(const fs::Attr input,
               lift(held.snapshot.lookup(held.inputs, of.substr(kInputs.size())), std::string(of)));
    return input.ino;
  }
  if (of.starts_with(kOutputs)) {
    for (const auto& [stage, ino] : held.outputs) {
      if (of.substr(kOutputs.size()) == stage) return ino;
    }
    return sys::fail(sys::ErrorKind::not_found, std::string(of) + ": the snapshot's turn has no such stage");
  }
  return sys::fail(sys::ErrorKind::invalid, "of is none of workspace, events, inputs/NAME, outputs/STAGE");
}

}  // namespace turnbox::turn
