// Verbs on ranges of a file: allocate and copy_range.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fs/tree/state.h"

namespace turnbox::fs {
namespace {

constexpr uint32_t kKeepSize = 1, kPunchHole = 2, kZeroRange = 16;

uint64_t page_at_or_after(uint64_t offset) {
  return (offset + kPageSize - 1) >> kPageBits;
}

Expected<void> check_mode(uint32_t mode) {
  switch (mode) {
    case 0:
    case kKeepSize:
    case kPunchHole | kKeepSize:
    case kZeroRange:
    case kZeroRange | kKeepSize:
      return {};
    default:
      return err(EOPNOTSUPP);
  }
}

bool fits(uint64_t offset, uint64_t size) {
  return offset <= kMaxFileSize && size <= kMaxFileSize - offset;
}

// One call shares at most this much, and copies at most this much where nothing can be shared: a guest's
// request must not keep the tree's thread for long. copy_file_range(2) may do less than asked.
constexpr uint64_t kMostShared = uint64_t{256} << 20, kMostCopied = uint64_t{1} << 20;
// Shared pages cost no budget, but the nodes that name them cost memory: all files together may name this
// many times the pages that the budget has.
constexpr uint64_t kMostSharing = 16;

std::vector<std::byte> bytes_of(const Inode& inode, uint64_t offset, uint64_t size) {
  std::vector<std::span<const std::byte>> spans;
  File::read(inode, offset, size, spans);
  std::vector<std::byte> bytes;
  bytes.reserve(size);
  for (const auto span : spans) bytes.insert(bytes.end(), span.begin(), span.end());
  return bytes;
}

// A copy in up to three parts: bytes, whole pages, bytes.
struct Parts {
  uint64_t head = 0, pages = 0, tail = 0;
};

// `last_whole`: the copy ends both files, so what follows in the last page is zeros in both.
Parts split(uint64_t from_offset, uint64_t to_offset, uint64_t size, bool last_whole) {
  if (from_offset % kPageSize != to_offset % kPageSize) return {.head = size};
  Parts parts;
  parts.head = std::min(size, (kPageSize - from_offset % kPageSize) % kPageSize);
  const uint64_t rest = size - parts.head;
  parts.pages = rest >> kPageBits;
  parts.tail = rest % kPageSize;
  if (parts.tail > 0 && last_whole) {
    ++parts.pages;
    parts.tail = 0;
  }
  return parts;
}

// Pages that zeroing the ends of a range, where they lie inside pages, would take.
uint64_t edges_need(const Nodes& nodes, const Inode& inode, uint64_t offset, uint64_t end) {
  const auto need = [&](uint64_t at) {
    const ChunkView chunk = File::chunk_at(inode, at >> kChunkBits);
    const bool written = chunk.page(static_cast<unsigned>(at >> kPageBits) % kChunkPages) != nullptr;
    return at % kPageSize != 0 && written ? File::pages_needed(nodes, inode, at, 1) : 0;
  };
  return need(offset) + (offset >> kPageBits == end >> kPageBits ? 0 : need(end));
}

void put_bytes(Nodes& nodes, Inode& inode, uint64_t offset, const std::vector<std::byte>& bytes) {
  if (bytes.empty()) return;
  const std::byte* at = bytes.data();
  File::write(nodes, inode, offset, bytes.size(), [&at](std::span<std::byte> to) {
    std::memcpy(to.data(), at, to.size());
    at += to.size();
  });
}

}  // namespace

Expected<void> Tree::allocate(Ino ino, uint64_t offset, uint64_t size, uint32_t mode, const Caller& caller) {
  State& state = *state_;
  TRY_ASSIGN(const Inode* found, state.get(ino));
  TRY(check_mode(mode));
  if (found->is_dir()) return err(EISDIR);
  if (!found->is_file()) return err(ENODEV);
  if (size == 0) return err(EINVAL);
  if (!fits(offset, size)) return err(EFBIG);
  TRY(state.may_change(*found, caller));
  const uint64_t end = offset + size, first = offset >> kPageBits, last = page_at_or_after(end);
  Inode* inode = state.edit(ino);  // ours from here, so that what is shared shows in the counts
  uint64_t needed = (mode & kPunchHole) != 0 ? 0 : last - first - File::count(*inode, first, last);
  if ((mode & (kPunchHole | kZeroRange)) != 0) needed += edges_need(state.nodes, *inode, offset, end);
  TRY(state.room_for_new_pages(needed));

  const Time time = state.now();
  inode->epoch = state.nodes.epoch;
  state.change_pages(*inode, [&] {
    if ((mode & (kPunchHole | kZeroRange)) != 0) File::punch(state.nodes, *inode, offset, end);
    if ((mode & kPunchHole) == 0) File::reserve(state.nodes, *inode, first, last);
  });
  if ((mode & kKeepSize) == 0) inode->size = std::max(inode->size, end);
  if (!caller.host && caller.uid != 0) state.kill_privileges(*inode);
  inode->set_mtime(time);
  inode->set_ctime(time);
  state.settle();
  return {};
}

Expected<uint64_t> Tree::copy_range(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset, uint64_t size,
                                    bool kill_suidgid, const Caller& caller) {
  State& state = *state_;
  TRY_ASSIGN(const Inode* source, state.get(from));
  TRY_ASSIGN(const Inode* found, state.get(to));
  if (source->is_dir() || found->is_dir()) return err(EISDIR);
  if (!source->is_file() || !found->is_file()) return err(EINVAL);
  TRY(state.may_change(*found, caller));
  if (!fits(from_offset, size)) return err(EOVERFLOW);
  if (!fits(to_offset, size)) return err(EFBIG);
  if (from_offset >= source->size) return uint64_t{0};
  size = std::min(size, source->size - from_offset);
  if (from == to && from_offset < to_offset + size && to_offset < from_offset + size) return err(EINVAL);
  const bool aligned = from_offset % kPageSize == to_offset % kPageSize;
  size = std::min(size, aligned ? kMostShared : kMostCopied);
  if (size == 0) return size;

  Inode* inode = state.edit(to);
  source = state.find(from);  // the edit may have moved it
  const bool last_whole = from_offset + size == source->size && to_offset + size >= inode->size;
  const Parts parts = split(from_offset, to_offset, size, last_whole);
  const uint64_t from_page = (from_offset + parts.head) >> kPageBits,
                 to_page = (to_offset + parts.head) >> kPageBits;
  uint64_t needed = File::pages_needed(state.nodes, *inode, to_offset, parts.head);
  if (parts.tail > 0)
    needed += File::pages_needed(state.nodes, *inode, to_offset + size - parts.tail, parts.tail);
  TRY(state.room_for_new_pages(needed));
  const uint64_t named =
      state.counts().file_pages + needed + File::count(*source, from_page, from_page + parts.pages);
  if (named > kMostSharing * (state.budget.bytes >> kPageBits)) return err(ENOSPC);

  // Everything is taken out first: both files may be one.
  const auto head = bytes_of(*source, from_offset, parts.head);
  const auto tail = bytes_of(*source, from_offset + size - parts.tail, parts.tail);
  std::vector<PageRef> pages;
  pages.reserve(parts.pages);
  for (uint64_t page = from_page; page < from_page + parts.pages; ++page) {
    const ChunkView chunk = File::chunk_at(*source, page / kChunkPages);
    PageRef ref = chunk.at(static_cast<unsigned>(page % kChunkPages));
    if (ref.content() == nullptr) ref = PageRef(nullptr);
    if (!ref.none()) state.nodes.pages().retain(ref.page());
    pages.push_back(ref);
  }
  const Time time = state.now();
  inode->epoch = state.nodes.epoch;
  state.change_pages(*inode, [&] {
    put_bytes(state.nodes, *inode, to_offset, head);
    File::place(state.nodes, *inode, to_page, pages);
    put_bytes(state.nodes, *inode, to_offset + size - parts.tail, tail);
  });
  inode->size = std::max(inode->size, to_offset + size);
  if (kill_suidgid) state.kill_privileges(*inode);
  inode->set_mtime(time);
  inode->set_ctime(time);
  state.settle();
  return size;
}

}  // namespace turnbox::fs
