// How often each inode is held beyond its names: lookup counts and open handles. Outside of the persistent
// tree, or every LOOKUP and FORGET would copy a path.
//
// Counts stand in blocks of 64 neighbouring numbers: 8 bytes an inode where they are dense, and growing the
// map of blocks stays short.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "fs/tree/types.h"

namespace turnbox::fs {

class HoldTable {
 public:
  void add(Ino ino, uint64_t count) {
    auto& block = blocks_[ino / kBlock];
    if (block == nullptr) block = std::make_unique<Block>();
    uint64_t& held = block->counts[ino % kBlock];
    if (held == 0) ++block->used;
    held += count;
  }
  // Never below zero. True when nothing is left.
  bool drop(Ino ino, uint64_t count) {
    const auto found = blocks_.find(ino / kBlock);
    if (found == blocks_.end()) return true;
    uint64_t& held = found->second->counts[ino % kBlock];
    if (held == 0) return true;
    held -= count < held ? count : held;
    if (held > 0) return false;
    if (--found->second->used == 0) blocks_.erase(found);
    return true;
  }
  bool holds(Ino ino) const {
    const auto found = blocks_.find(ino / kBlock);
    return found != blocks_.end() && found->second->counts[ino % kBlock] > 0;
  }

 private:
  static constexpr uint64_t kBlock = 64;
  struct Block {
    std::array<uint64_t, kBlock> counts{};
    uint32_t used = 0;
  };
  std::unordered_map<uint64_t, std::unique_ptr<Block>> blocks_;
};

}  // namespace turnbox::fs
