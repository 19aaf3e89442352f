#include <chrono>

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
  snapshot.root_->serial = ++state.nodes.heap()->snapshots;
  if (state.live.inodes.root != nullptr) state.nodes.retain(state.live.inodes.root);
  state.nodes.next_epoch();
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
  state.nodes.tell_garbage();
}

bool Tree::reclaim(unsigned budget_us) {
  constexpr unsigned kLongest = 800;  // the last step of one may give a slab back to the kernel
  if (state_->nodes.reclaim(std::min(budget_us, kLongest))) return true;
  return state_->unnamed_from != kNoIno && state_->free_unnamed(std::min(budget_us, kLongest));
}

std::unique_ptr<Tree> Tree::fork(const Snapshot& snapshot) {
  const State& state = *state_;
  const Root& root = *snapshot.root_;
  TURNBOX_ASSERT(root.tree == state_.get() && std::this_thread::get_id() == state.owner);
  std::unique_ptr<Tree> tree(new Tree(std::make_unique<State>(state.nodes.heap())));
  State& made = *tree->state_;
  made.live.inodes = root.inodes;
  made.live.counts = root.counts;
  made.live.tree = &made;
  if (root.inodes.root != nullptr) made.nodes.retain(root.inodes.root);
  made.zones = state.zones;
  made.budget = state.budget;
  made.now = state.now;
  if (root.counts.unnamed > 0) made.unnamed_from = 1;
  return tree;
}

// Nobody holds in a fork what only a session of the other tree held.
bool Tree::State::free_unnamed(unsigned budget_us) {
  using Clock = std::chrono::steady_clock;
  constexpr unsigned kBetweenLooks = 256;  // at the clock
  const auto end = Clock::now() + std::chrono::microseconds(budget_us);
  do {
    for (unsigned i = 0; i < kBetweenLooks; ++i) {
      const auto at = live.inodes.first_from(unnamed_from);
      if (!at || counts().unnamed == 0) {
        unnamed_from = kNoIno;
        return false;
      }
      unnamed_from = *at + 1;
      if (find(*at)->nlink == 0 && !holds.holds(*at)) free_inode(*at);
    }
  } while (Clock::now() < end);
  return true;
}

void Tree::on_garbage(std::function<void()> garbage) {
  state_->nodes.on_garbage(std::move(garbage));
}

}  // namespace turnbox::fs
