#include "fs/tree/meta.h"

namespace turnbox::fs {

void Meta::row(const Step& step) {
  const Inode& inode = step.inode;
  row_.clear();
  sys::append_le(row_, static_cast<uint32_t>(step.path.size()));
  sys::append(row_, sys::as_bytes(step.path));
  sys::append_le(row_, uint64_t{step.ino});
  sys::append_le(row_, inode.uid);
  sys::append_le(row_, inode.gid);
  sys::append_le(row_, inode.nlink);
  sys::append_le(row_, inode.mtime_sec);
  sys::append_le(row_, inode.mtime_nsec);
  sys::append_le(row_, uint32_t{inode.mode});
  const auto xattrs = Xattrs::all(inode.xattrs);
  sys::append_le(row_, static_cast<uint16_t>(xattrs.size()));
  for (const Xattr* xattr : xattrs) {
    sys::append_le(row_, static_cast<uint16_t>(xattr->name().size()));
    sys::append(row_, sys::as_bytes(xattr->name()));
    sys::append_le(row_, xattr->value_size);
    sys::append(row_, xattr->value());
  }
  put(row_);
}

void Meta::put(sys::ByteSpan bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    const size_t piece = std::min(bytes.size(), kChunkSize - buffer_.size());
    sys::append(buffer_, bytes.first(piece));
    bytes = bytes.subspan(piece);
    if (buffer_.size() == kChunkSize) cut();
  }
}

void Meta::cut() {
  const sys::Digest digest = sys::digest_of("chunk", buffer_);
  chunks_.push_back({chunks_.size(), 0, static_cast<uint32_t>(buffer_.size()), digest});
  if (on_chunk_) on_chunk_(digest, buffer_);
  buffer_.clear();
}

void Meta::finish() {
  if (!buffer_.empty()) cut();
}

}  // namespace turnbox::fs
