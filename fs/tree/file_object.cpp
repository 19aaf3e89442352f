#include "fs/tree/file_object.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace turnbox::fs {
namespace {

constexpr unsigned kFanBits = 10;
constexpr unsigned kMaxTop = 5;

uint64_t divide_up(uint64_t value, unsigned bits) {
  return (value >> bits) + ((value & ((uint64_t{1} << bits) - 1)) != 0);
}

sys::Bytes repeated(const sys::Digest& digest) {
  sys::Bytes bytes;
  bytes.reserve(FileObject::kFan * digest.bytes.size());
  for (uint64_t i = 0; i < FileObject::kFan; ++i) sys::append(bytes, digest.bytes);
  return bytes;
}

// Of a full chunk of zeros (level 0) and of full lists of them.
const sys::Digest& zero_digest(unsigned level) {
  static const auto digests = [] {
    std::array<sys::Digest, kMaxTop> all;
    all[0] = sys::digest_of("chunk", zeros());
    for (unsigned i = 1; i < kMaxTop; ++i) all[i] = sys::digest_of("list", repeated(all[i - 1]));
    return all;
  }();
  return digests[level];
}

bool is_zero(std::span<const std::byte> bytes) {
  return std::memcmp(bytes.data(), zeros().data(), bytes.size()) == 0;
}

sys::Digest digest_chunk(const Inode& inode, uint64_t index, uint32_t length) {
  std::vector<std::span<const std::byte>> spans;
  File::read(inode, index << kChunkBits, length, spans);
  const bool all_zero = std::all_of(spans.begin(), spans.end(), is_zero);
  if (all_zero && length == kChunkSize) return zero_digest(0);
  thread_local sys::Sha256 hash;
  hash.restart("chunk");
  for (const auto span : spans) hash.update(span);
  return hash.finish();
}

uint32_t length_of(uint64_t size, uint64_t index) {
  return static_cast<uint32_t>(std::min(kChunkSize, size - (index << kChunkBits)));
}

}  // namespace

FileObject::FileObject(uint64_t size, std::span<const ChunkDigest> chunks)
    : size_(size), chunks_(divide_up(size, kChunkBits)), top_(0), data_(chunks) {
  while (nodes(top_) > kFan) ++top_;
}

uint64_t FileObject::nodes(unsigned level) const {
  return divide_up(chunks_, kFanBits * level);
}
uint32_t FileObject::chunk_length(uint64_t index) const {
  return length_of(size_, index);
}

const ChunkDigest* FileObject::first_at_or_after(uint64_t chunk) const {
  return std::lower_bound(data_.data(), data_.data() + data_.size(), chunk,
                          [](const ChunkDigest& at, uint64_t index) { return at.index < index; });
}

bool FileObject::full_hole(unsigned level, uint64_t index) const {
  const uint64_t first = index << (kFanBits * level), past = (index + 1) << (kFanBits * level);
  if (past > size_ >> kChunkBits) return false;  // not full, or its last chunk is not
  const ChunkDigest* next = first_at_or_after(first);
  return next == data_.data() + data_.size() || next->index >= past;
}

sys::Digest FileObject::digest(unsigned level, uint64_t index) const {
  if (full_hole(level, index)) return zero_digest(level);
  if (level == 1 && index < lists_.size()) return lists_[index];
  if (level > 0) return sys::digest_of("list", list(level, index));
  const ChunkDigest* chunk = first_at_or_after(index);
  if (chunk != data_.data() + data_.size() && chunk->index == index) return chunk->digest;
  return sys::digest_of("chunk", zeros().first(chunk_length(index)));
}

sys::Bytes FileObject::list(unsigned level, uint64_t index) const {
  sys::Bytes bytes;
  const uint64_t past = std::min(nodes(level - 1), (index + 1) * kFan);
  bytes.reserve((past - index * kFan) * sizeof(sys::Digest));
  if (level == 1) {  // most chunks have content, in order: no search for each
    const ChunkDigest* next = first_at_or_after(index * kFan);
    const ChunkDigest* const end = data_.data() + data_.size();
    for (uint64_t chunk = index * kFan; chunk < past; ++chunk) {
      const bool here = next != end && next->index == chunk;
      sys::append(bytes, here ? next++->digest.bytes : digest(0, chunk).bytes);
    }
    return bytes;
  }
  for (uint64_t child = index * kFan; child < past; ++child)
    sys::append(bytes, digest(level - 1, child).bytes);
  return bytes;
}

sys::Bytes FileObject::object() const {
  sys::Bytes bytes;
  sys::append_le(bytes, size_);
  for (uint64_t i = 0; i < nodes(top_); ++i) sys::append(bytes, digest(top_, i).bytes);
  return bytes;
}

std::vector<sys::Digest> FileObject::lists(std::span<const sys::Digest> known,
                                           std::span<const uint64_t> changed) const {
  constexpr uint64_t kMost = 65'536;  // lists: 4 TiB
  const uint64_t count = nodes(1);
  if (top_ == 0 || count > kMost) return {};
  std::vector<bool> stale(count, known.size() != count);
  for (const uint64_t chunk : changed) {
    if (chunk >> kFanBits < count) stale[chunk >> kFanBits] = true;
  }
  std::vector<sys::Digest> found(count);
  for (uint64_t i = 0; i < count; ++i) found[i] = stale[i] ? digest(1, i) : known[i];
  return found;
}

void chunk_bytes(const Inode& inode, uint64_t index, sys::Bytes& buffer) {
  std::vector<std::span<const std::byte>> spans;
  File::read(inode, index << kChunkBits, length_of(inode.size, index), spans);
  buffer.clear();
  for (const auto span : spans) sys::append(buffer, span);
}

std::vector<ChunkDigest> digest_chunks(const Inode& inode, std::span<const ChunkDigest> known,
                                       std::vector<uint64_t>& changed) {
  std::vector<ChunkDigest> chunks;
  chunks.reserve(known.size());
  const ChunkDigest* old = known.data();
  const ChunkDigest* const end = old + known.size();
  File::scan(inode, 0, [&](uint64_t index, const ChunkView& view) {
    if (index << kChunkBits >= inode.size) return false;
    const uint32_t length = length_of(inode.size, index);
    for (; old != end && old->index < index; ++old) changed.push_back(old->index);
    const bool known_here = old != end && old->index == index;
    if (known_here && old->epoch == view.epoch && old->length == length) {
      chunks.push_back(*old);
    } else {
      chunks.push_back({index, view.epoch, length, digest_chunk(inode, index, length)});
      changed.push_back(index);
    }
    if (known_here) ++old;
    return true;
  });
  for (; old != end; ++old) changed.push_back(old->index);
  return chunks;
}

}  // namespace turnbox::fs
