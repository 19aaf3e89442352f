#include "fs/turn/snapshots.h"

#include "fs/turn/lift.h"

namespace turnbox::turn {

sys::Status Snapshots::room() const {
  if (turns_.size() < kMost) return {};
  return sys::fail(sys::ErrorKind::limit, "256 snapshots are held; release some first");
}

Lease Snapshots::take_back(Held held, fs::Tree& tree, std::function<void()> released) const {
  const auto give_back = [owner = &tree, told = released_, released = std::move(released)](Held* done) {
    owner->release(std::move(done->snapshot));
    delete done;
    told();
    if (released) released();
  };
  return std::shared_ptr<Held>(new Held(std::move(held)), give_back);
}

uint64_t Snapshots::take(fs::Ino workspace, const Turn& turn) {
  Held held{.snapshot = tree_.snapshot(),
            .tree = &tree_,
            .workspace = workspace,
            .inputs = turn.inputs,
            .events = turn.events};
  for (const Stage& stage : turn.stages) held.outputs.emplace_back(stage.name, stage.outputs);
  const uint64_t id = keep(take_back(std::move(held), tree_, {}));
  turns_.insert(id);
  return id;
}

Lease Snapshots::lease(fs::Tree& tree, fs::Ino workspace, std::function<void()> released) {
  return take_back({.snapshot = tree.snapshot(), .tree = &tree, .workspace = workspace}, tree,
                   std::move(released));
}

uint64_t Snapshots::keep(Lease lease) {
  held_.emplace(++last_, std::move(lease));
  return last_;
}

sys::Result<Lease> Snapshots::find(uint64_t id) const {
  const auto found = held_.find(id);
  if (found == held_.end()) return sys::fail(sys::ErrorKind::not_found, "no snapshot " + std::to_string(id));
  return found->second;
}

sys::Status Snapshots::release(uint64_t id) {
  if (held_.erase(id) == 0) return sys::fail(sys::ErrorKind::not_found, "no snapshot " + std::to_string(id));
  turns_.erase(id);
  return {};
}

sys::Result<fs::Ino> Snapshots::resolve(const Held& held, std::string_view of) {
  constexpr std::string_view kInputs = "inputs/", kOutputs = "outputs/";
  if (of == "workspace") return held.workspace;
  if (held.events == fs::kNoIno)
    return sys::fail(sys::ErrorKind::not_found, "this snapshot is of a workspace alone");
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
