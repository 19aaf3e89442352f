#include "fs/tree/state.h"

namespace turnbox::fs {

Snapshot::Snapshot() = default;

Snapshot::Snapshot(Snapshot&& other) noexcept {
  std::swap(root_, other.root_);
}

Snapshot& Snapshot::operator=(Snapshot&& other) noexcept {
  std::swap(root_, other.root_);
  return *this;
}

Snapshot::~Snapshot() {
  if (root_ == nullptr) return;
  Tree::drop(*root_);
  delete root_;
}

uint64_t Snapshot::id() const {
  return root_->snapshot_id;
}

Snapshot Tree::snapshot() {
  State& state = *state_;
  Snapshot snapshot;
  snapshot.root_ = new Root(state.live);
  snapshot.root_->snapshot_id = ++state.snapshots_taken;
  if (state.live.inodes.root != nullptr) state.nodes.retain(state.live.inodes.root);
  ++state.nodes.epoch;
  ++state.snapshots_live;
  return snapshot;
}

void Tree::release(Snapshot snapshot) {
  TURNBOX_ASSERT(snapshot.root_ == nullptr || snapshot.root_->tree == state_.get());
}

void Tree::drop(Root& root) {
  State& state = *root.tree;
  TURNBOX_ASSERT(std::this_thread::get_id() == state.owner);
  if (root.inodes.root != nullptr) state.nodes.release(root.inodes.root);
  --state.snapshots_live;
}

bool Tree::reclaim(unsigned budget_us) {
  constexpr unsigned kLongest = 800;  // the last step of one may give a slab back to the kernel
  return state_->nodes.reclaim(std::min(budget_us, kLongest));
}

}  // namespace turnbox::fs
