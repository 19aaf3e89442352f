// The arithmetic of a file's trie, shared by file.cpp and file_write.cpp. Positions are chunk indexes.
#pragma once

#include <cstdint>

namespace turnbox::fs::trie {

inline constexpr unsigned kBits = 6;

// Chunks below a node of this height (1: a chunk itself).
inline uint64_t chunks_below(unsigned height) {
  return uint64_t{1} << (kBits * (height - 1));
}
inline bool covers(unsigned height, uint64_t index) {
  return height == 0 ? index == 0 : (index >> (kBits * (height - 1))) == 0;
}
inline unsigned slot_of(uint64_t index, unsigned height) {
  return static_cast<unsigned>(index >> (kBits * (height - 2))) & 63;
}

}  // namespace turnbox::fs::trie
