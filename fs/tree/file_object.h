// The `file` object of docs/RECORD.md: chunk digests gathered in lists of 1,024, whole ranges of holes for
// nothing.
#pragma once

#include <vector>

#include "fs/tree/file.h"
#include "vmm/sys/digest.h"

namespace turnbox::fs {

// The digest of a chunk that holds pages, and what it was computed from.
struct ChunkDigest {
  uint64_t index;
  uint32_t epoch;   // of the chunk
  uint32_t length;  // 1 … 65,536
  sys::Digest digest;
};

// A view of one file's digests; what it points to must stay.
class FileObject {
 public:
  static constexpr uint64_t kFan = 1024;

  // `chunks`: those with content, in order; every other chunk is a hole.
  FileObject(uint64_t size, std::span<const ChunkDigest> chunks);

  unsigned top() const { return top_; }  // level of the digests in the object: 0 for chunks
  uint64_t nodes(unsigned level) const;  // how many chunks or lists a level has
  sys::Digest digest(unsigned level, uint64_t index) const;
  sys::Bytes list(unsigned level, uint64_t index) const;  // bytes of a list, level ≥ 1
  sys::Bytes object() const;
  // A full node below which nothing but holes is: all of a level are the same.
  bool full_hole(unsigned level, uint64_t index) const;
  uint32_t chunk_length(uint64_t index) const;

  // The digests of level 1, where the file has one and it is not of a size that only holes make. `known`:
  // those of the same file at the same size, when the digests of all chunks but `changed` were the same.
  std::vector<sys::Digest> lists(std::span<const sys::Digest> known, std::span<const uint64_t> changed) const;
  // From now on these are taken for level 1; they must stay.
  void know(std::span<const sys::Digest> lists) { lists_ = lists; }

 private:
  const ChunkDigest* first_at_or_after(uint64_t chunk) const;

  uint64_t size_;
  uint64_t chunks_;
  unsigned top_;
  std::span<const ChunkDigest> data_;
  std::span<const sys::Digest> lists_{};
};

// Bytes of a chunk, in `buffer` (which is resized).
void chunk_bytes(const Inode& inode, uint64_t index, sys::Bytes& buffer);

// The digests of a file's chunks with content. Those in `known` (of the same file, in order) that still hold
// are kept; `changed` gets the index of every chunk whose digest is new or gone.
std::vector<ChunkDigest> digest_chunks(const Inode& inode, std::span<const ChunkDigest> known,
                                       std::vector<uint64_t>& changed);

}  // namespace turnbox::fs
