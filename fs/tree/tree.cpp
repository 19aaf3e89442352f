#include "fs/tree/tree.h"

#include <cerrno>

#include "fs/tree/state.h"

namespace turnbox::fs {

Tree::Tree(const Budget& budget, Now now) : state_(std::make_unique<State>()) {
  state_->budget = budget;
  state_->now = std::move(now);
  state_->live.tree = state_.get();
  root_ = &state_->live;
}

// Alone, the pools give everything back at once; a snapshot that is still there would point into nothing.
// Where other trees share them, they free what this one alone held, in steps.
Tree::~Tree() {
  TURNBOX_ASSERT(state_->snapshots_live == 0);
  if (state_->nodes.alone() || state_->live.inodes.root == nullptr) return;
  TURNBOX_ASSERT(std::this_thread::get_id() == state_->owner);
  state_->nodes.release(state_->live.inodes.root);
}

Tree::Tree(std::unique_ptr<State> state) : state_(std::move(state)) {
  root_ = &state_->live;
}

Ino Tree::make_root(ZoneId zone, uint16_t mode) {
  TURNBOX_ASSERT(zone < state_->zones.size());
  const Ino ino = state_->add_inode(Type::directory, mode, zone, kNoIno);
  state_->edit(ino)->parent = ino;
  return ino;
}

ZoneId Tree::add_zone(const Zone& zone) {
  state_->zones.push_back(zone);
  return static_cast<ZoneId>(state_->zones.size() - 1);
}

const Zone& Tree::zone(ZoneId id) const {
  return state_->zones.at(id);
}
void Tree::set_zone_state(ZoneId id, ZoneState state) {
  state_->zones.at(id).state = state;
}

void Tree::hold(Ino ino, uint64_t count) {
  TURNBOX_ASSERT(state_->find(ino) != nullptr);
  if (count > 0) state_->holds.add(ino, count);
}

void Tree::unhold(Ino ino, uint64_t count) {
  if (count == 0 || !state_->holds.drop(ino, count)) return;
  const Inode* inode = state_->find(ino);
  if (inode == nullptr || inode->nlink > 0) return;
  state_->free_inode(ino);
  state_->settle();
}

Expected<void> Tree::reachable(Ino ino) const {
  TRY_ASSIGN(const Inode* inode, state_->get(ino));
  if (state_->zones[inode->zone].state == ZoneState::stale) return err(ESTALE);
  return {};
}

const Budget& Tree::budget() const {
  return state_->budget;
}

Usage Tree::usage() const {
  return {.bytes = state_->nodes.pages().pages() << kPageBits,
          .inodes = state_->counts().inodes,
          .name_bytes = state_->counts().name_bytes,
          .xattr_bytes = state_->counts().xattr_bytes};
}

Memory Tree::memory() const {
  return {.node_bytes = state_->nodes.used_bytes(),
          .page_bytes = state_->nodes.pages().pages() << kPageBits,
          .mapped_bytes = state_->nodes.mapped_bytes()};
}

}  // namespace turnbox::fs
