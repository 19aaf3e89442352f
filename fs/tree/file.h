// The content of a regular file as a persistent value: functions on the trie that its inode holds.
//
// Height 0: one page, or nothing. Height 1: a chunk, 64 KiB, the unit of digests. Above: packed 64-way nodes.
// What is not there is a hole. Bytes of a page past the end of the file are zeros. Changing functions need
// the inode edited.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "fs/tree/inode.h"
#include "fs/tree/nodes.h"

namespace turnbox::fs {

inline constexpr unsigned kChunkBits = 16;
inline constexpr uint64_t kChunkSize = uint64_t{1} << kChunkBits;
inline constexpr unsigned kChunkPages = 16;
inline constexpr uint64_t kMaxFileSize = (uint64_t{1} << 63) - 1;

// The pages of one chunk, however the file keeps them.
struct ChunkView {
  uint32_t epoch = 0;
  const Chunk* chunk = nullptr;
  const Page* single = nullptr;

  bool empty() const { return chunk == nullptr && single == nullptr; }
  const Page* page(unsigned slot) const {
    if (single != nullptr) return slot == 0 ? single : nullptr;
    Page* const* found = chunk != nullptr ? chunk->find(slot) : nullptr;
    return found != nullptr ? *found : nullptr;
  }
};

class File {
 public:
  static ChunkView chunk_at(const Inode& inode, uint64_t index);
  // Chunks that hold a page, in order, from chunk `first`, until `visit` returns false.
  using VisitChunk = std::function<bool(uint64_t index, const ChunkView&)>;
  static void scan(const Inode& inode, uint64_t first, const VisitChunk& visit);
  // Appends spans of [offset, offset+size), which lies in the file; neighbours in memory become one span.
  static void read(const Inode& inode, uint64_t offset, size_t size,
                   std::vector<std::span<const std::byte>>& spans);
  // The first page at or after `page` that is there, or is not there.
  static std::optional<uint64_t> next_data(const Inode& inode, uint64_t page);
  static uint64_t next_hole(const Inode& inode, uint64_t page);

  // Pages that writing [offset, offset+size) would take from the pool.
  static uint64_t pages_needed(const Nodes& nodes, const Inode& inode, uint64_t offset, uint64_t size);
  // Makes the range ours and lets `fill` fill it, in consecutive spans. The size is the caller's to set.
  static void write(Nodes& nodes, Inode& inode, uint64_t offset, size_t size,
                    const std::function<void(std::span<std::byte>)>& fill);
  // Frees every page past `size` and zeroes the rest of the last one. The size is the caller's to set.
  static void cut(Nodes& nodes, Inode& inode, uint64_t size);
};

}  // namespace turnbox::fs
