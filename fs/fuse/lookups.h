// How often the kernel has each inode of a live tree (by lookups, or open), which is held for as long.
#pragma once

#include <unordered_map>

#include "fs/tree/tree.h"

namespace turnbox::fuse {

class Lookups {
 public:
  explicit Lookups(fs::Tree* tree) : tree_(tree) {}  // null: there is nothing to hold, nor to count
  ~Lookups() { end(); }
  Lookups(const Lookups&) = delete;
  Lookups& operator=(const Lookups&) = delete;

  void remember(fs::Ino ino) {
    if (tree_ == nullptr) return;
    if (++counts_[ino] == 1) tree_->hold(ino);
  }
  void forget(fs::Ino ino, uint64_t count) {
    const auto at = counts_.find(ino);
    if (at == counts_.end()) return;
    at->second -= count < at->second ? count : at->second;
    if (at->second > 0) return;
    counts_.erase(at);
    tree_->unhold(ino);
  }
  void end() {
    for (const auto& [ino, count] : counts_) tree_->unhold(ino);
    counts_.clear();
  }

 private:
  fs::Tree* tree_;
  std::unordered_map<fs::Ino, uint64_t> counts_;
};

}  // namespace turnbox::fuse
