#include "fs/virtiofs/session.h"

#include <cerrno>
#include <limits>

namespace turnbox::virtiofs {

void Session::begin(uint64_t flags) {
  end();
  begun_ = true;
  flags_ = flags;
}

void Session::end() {
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].used) let_go(slot);
  }
  for (const auto& [ino, count] : nodes_) tree_.unhold(ino);
  nodes_.clear();
  begun_ = false;
  flags_ = 0;
}

fs::Expected<fs::Ino> Session::resolve(uint64_t node_id) const {
  if (node_id == 0) return fs::err(EINVAL);
  if (node_id == kRootId) return options_.root;
  if (!nodes_.contains(node_id)) return fs::err(ESTALE);
  return node_id;
}

void Session::remember(fs::Ino ino) {
  if (ino == options_.root) return;  // never counted: the root cannot be forgotten
  const auto [at, fresh] = nodes_.try_emplace(ino, 0);
  if (fresh) tree_.hold(ino);
  if (at->second != std::numeric_limits<uint64_t>::max()) ++at->second;
}

bool Session::forget(uint64_t node_id, uint64_t count) {
  if (node_id == kRootId) return true;
  const auto at = nodes_.find(node_id);
  if (at == nodes_.end()) return count == 0;
  const bool within = count <= at->second;
  if (count >= at->second) {
    nodes_.erase(at);
    tree_.unhold(node_id);
  } else {
    at->second -= count;
  }
  return within;
}

fs::Expected<uint64_t> Session::open(const Handle& handle) {
  if (!has_handle_room()) return fs::err(ENFILE);
  uint32_t slot = 0;
  if (free_.empty()) {
    slot = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  slots_[slot].handle = handle;
  slots_[slot].used = true;
  ++open_;
  tree_.hold(handle.ino);
  return number_of(slot, slots_[slot].generation);
}

fs::Expected<Handle> Session::handle(uint64_t number, fs::Ino ino, bool directory) const {
  const uint64_t slot = number & 0xffffffff;
  if (slot >= slots_.size()) return fs::err(EBADF);
  const Slot& at = slots_[slot];
  if (!at.used || at.generation != number >> 32) return fs::err(EBADF);
  if (at.handle.ino != ino || at.handle.directory != directory) return fs::err(EBADF);
  return at.handle;
}

void Session::close(uint64_t number) {
  let_go(static_cast<uint32_t>(number & 0xffffffff));
}

void Session::let_go(uint32_t slot) {
  Slot& at = slots_[slot];
  if (at.handle.log && options_.events != nullptr) {
    options_.events->closed(at.handle.ino, number_of(slot, at.generation));
  }
  tree_.unhold(at.handle.ino);
  at.used = false;
  ++at.generation;
  --open_;
  free_.push_back(slot);
}

}  // namespace turnbox::virtiofs
