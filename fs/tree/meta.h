// The `meta` object of a subtree (docs/RECORD.md): made and cut into chunks as the rows come, never held
// whole.
#pragma once

#include <functional>

#include "fs/tree/file_object.h"
#include "fs/tree/walk.h"

namespace turnbox::fs {

inline constexpr uint64_t kMaxMeta = uint64_t{4} << 30;  // bytes of rows: EFBIG

class Meta {
 public:
  // `chunk` gets each chunk's bytes as it is full.
  using OnChunk = std::function<void(const sys::Digest&, sys::ByteSpan)>;
  explicit Meta(OnChunk chunk = {}) : on_chunk_(std::move(chunk)) { buffer_.reserve(kChunkSize); }

  void row(const Step& step);
  void finish();
  // After finish().
  FileObject object() const { return {size_, chunks_}; }
  uint64_t size() const { return size_; }

 private:
  void put(sys::ByteSpan bytes);
  void cut();

  OnChunk on_chunk_;
  sys::Bytes buffer_, row_;
  std::vector<ChunkDigest> chunks_;
  uint64_t size_ = 0;
};

}  // namespace turnbox::fs
