// The content of a regular file as a persistent value: functions on the trie that its inode holds.
//
// Height 0: one page, or nothing. Height 1: a chunk, 64 KiB, the unit of digests. Above: packed 64-way nodes.
// What is not there is a hole. Bytes of a page past the end of the file are zeros; pages may stand there
// (allocated, not written). Changing functions need the inode edited.
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
  PageRef single = PageRef(nullptr);

  bool empty() const { return chunk == nullptr && single.none(); }
  PageRef at(unsigned slot) const {
    if (chunk == nullptr) return slot == 0 ? single : PageRef(nullptr);
    const PageRef* found = chunk->find(slot);
    return found != nullptr ? *found : PageRef(nullptr);
  }
  const Page* page(unsigned slot) const { return at(slot).content(); }  // null: zeros
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
  // The first page at or after `page` that was written, or was not.
  static std::optional<uint64_t> next_data(const Inode& inode, uint64_t page);
  static uint64_t next_hole(const Inode& inode, uint64_t page);
  // How many of the pages [first, last) are there, written or not.
  static uint64_t count(const Inode& inode, uint64_t first, uint64_t last);

  // Pages that writing [offset, offset+size) would take from the pool.
  static uint64_t pages_needed(const Nodes& nodes, const Inode& inode, uint64_t offset, uint64_t size);
  // Makes the range ours and lets `fill` fill it, in consecutive spans. The size is the caller's to set.
  static void write(Nodes& nodes, Inode& inode, uint64_t offset, size_t size,
                    const std::function<void(std::span<std::byte>)>& fill);
  // Frees every page past `size` and zeroes the rest of the last one. The size is the caller's to set.
  static void cut(Nodes& nodes, Inode& inode, uint64_t size);
  // Frees the pages [first, last).
  static void remove(Nodes& nodes, Inode& inode, uint64_t first, uint64_t last);

  // Ranges (file_range.cpp). Frees the whole pages of [offset, end) and zeroes the rest of the range.
  static void punch(Nodes& nodes, Inode& inode, uint64_t offset, uint64_t end);
  // Allocates what is missing of the pages [first, last).
  static void reserve(Nodes& nodes, Inode& inode, uint64_t first, uint64_t last);
  // Puts `pages` in the place of those from `first` on; what is null becomes a hole. A count of each is taken
  // over.
  static void place(Nodes& nodes, Inode& inode, uint64_t first, std::span<const PageRef> pages);

 private:
  class Filler;
  static void write_chunk(Nodes& nodes, Inode& inode, uint64_t offset, uint64_t end, Filler& filler);
  // Of one page that may be there; `size` bytes inside it.
  static void zero(Nodes& nodes, Inode& inode, uint64_t offset, size_t size);
  // The chunk, ours, made where it is missing, with room for `pages` more.
  static Chunk* edit_chunk(Nodes& nodes, Inode& inode, uint64_t index, size_t pages);
};

}  // namespace turnbox::fs
