#include "vmm/vhost/queue.h"

#include <algorithm>
#include <cstring>

#include "vmm/sys/result.h"

namespace turnbox::vhost {
namespace {

using Parts = std::span<const std::span<std::byte>>;

size_t total(Parts parts) {
  size_t bytes = 0;
  for (const auto& part : parts) bytes += part.size();
  return bytes;
}

// Takes the next piece of at most `count` bytes and moves the position past it.
std::span<std::byte> next_piece(Parts& parts, size_t& offset, size_t count) {
  while (offset == parts.front().size()) {
    parts = parts.subspan(1);
    offset = 0;
  }
  const auto piece = parts.front().subspan(offset);
  const auto taken = piece.first(std::min(piece.size(), count));
  offset += taken.size();
  return taken;
}

}  // namespace

ChainReader::ChainReader(Parts parts) : parts_(parts), remaining_(total(parts)) {}

bool ChainReader::read(std::span<std::byte> into) {
  if (into.size() > remaining_) return false;
  remaining_ -= into.size();
  while (!into.empty()) {
    const auto piece = next_piece(parts_, offset_, into.size());
    std::memcpy(into.data(), piece.data(), piece.size());
    into = into.subspan(piece.size());
  }
  return true;
}

bool ChainReader::skip(size_t count) {
  if (count > remaining_) return false;
  remaining_ -= count;
  while (count > 0) count -= next_piece(parts_, offset_, count).size();
  return true;
}

ChainWriter::ChainWriter(Parts parts) : parts_(parts), remaining_(total(parts)) {}

bool ChainWriter::write(std::span<const std::byte> bytes) {
  if (bytes.size() > remaining_) return false;
  remaining_ -= bytes.size();
  written_ += bytes.size();
  while (!bytes.empty()) {
    const auto piece = next_piece(parts_, offset_, bytes.size());
    std::memcpy(piece.data(), bytes.data(), piece.size());
    bytes = bytes.subspan(piece.size());
  }
  return true;
}

std::optional<ChainWriter> ChainWriter::reserve(size_t count) {
  if (count > remaining_) return std::nullopt;
  ChainWriter front = *this;
  front.remaining_ = count;
  front.written_ = 0;
  remaining_ -= count;
  written_ += count;
  while (count > 0) count -= next_piece(parts_, offset_, count).size();
  return front;
}

Chain::Chain(uint16_t head, Parts parts, size_t readable_parts, uint64_t run)
    : head_(head), run_(run), parts_(std::move(parts)), readable_parts_(readable_parts) {
  TURNBOX_ASSERT(readable_parts_ <= parts_.size());
  readable_bytes_ = total(readable());
  writable_bytes_ = total(writable());
}

}  // namespace turnbox::vhost
