// Reading the content of a file; file_write.cpp changes it.
#include "fs/tree/file.h"

#include <algorithm>

#include "fs/tree/file_trie.h"

namespace turnbox::fs {
namespace {

using Spans = std::vector<std::span<const std::byte>>;

void append(Spans& spans, size_t first, std::span<const std::byte> bytes) {
  if (spans.size() > first && spans.back().data() + spans.back().size() == bytes.data() &&
      bytes.data() != zeros().data()) {
    spans.back() = {spans.back().data(), spans.back().size() + bytes.size()};
  } else {
    spans.push_back(bytes);
  }
}

void append_hole(Spans& spans, uint64_t size) {
  while (size > 0) {
    const size_t piece = std::min<uint64_t>(size, zeros().size());
    spans.push_back(zeros().first(piece));
    size -= piece;
  }
}

// Visits chunks below `node`; false once `visit` has returned false.
bool scan_below(const Node* node, unsigned height, uint64_t base, uint64_t first,
                const File::VisitChunk& visit) {
  if (height == 1) {
    const auto* chunk = static_cast<const Chunk*>(node);
    return base < first || visit(base, ChunkView{chunk->epoch, chunk, PageRef(nullptr)});
  }
  const auto* inner = static_cast<const Inner*>(node);
  const uint64_t span = trie::chunks_below(height - 1);
  const uint64_t skip = first > base ? (first - base) / span : 0;
  for (unsigned slot = inner->slot_at_or_after(static_cast<unsigned>(std::min<uint64_t>(skip, 64)));
       slot < 64; slot = inner->slot_at_or_after(slot + 1)) {
    if (!scan_below(*inner->find(slot), height - 1, base + slot * span, first, visit)) return false;
  }
  return true;
}

}  // namespace

ChunkView File::chunk_at(const Inode& inode, uint64_t index) {
  if (inode.node == nullptr || !trie::covers(inode.height, index)) return {};
  if (inode.height == 0) return {inode.epoch, nullptr, inode.page};
  const Node* node = inode.node;
  for (unsigned height = inode.height; height > 1; --height) {
    const Node* const* child = static_cast<const Inner*>(node)->find(trie::slot_of(index, height));
    if (child == nullptr) return {};
    node = *child;
  }
  return {node->epoch, static_cast<const Chunk*>(node), PageRef(nullptr)};
}

void File::scan(const Inode& inode, uint64_t first, const VisitChunk& visit) {
  if (inode.node == nullptr) return;
  if (inode.height == 0) {
    if (first == 0) visit(0, chunk_at(inode, 0));
    return;
  }
  scan_below(inode.node, inode.height, 0, first, visit);
}

void File::read(const Inode& inode, uint64_t offset, size_t size, Spans& spans) {
  const size_t mine = spans.size();  // spans of the caller are not to be joined with ours
  const uint64_t end = offset + size;
  while (offset < end) {
    const uint64_t index = offset >> kChunkBits;
    const uint64_t chunk_end = std::min(end, (index + 1) << kChunkBits);
    const ChunkView chunk = chunk_at(inode, index);
    if (chunk.empty()) {
      append_hole(spans, chunk_end - offset);
      offset = chunk_end;
      continue;
    }
    while (offset < chunk_end) {
      const size_t in_page = offset % kPageSize;
      const size_t piece = std::min<uint64_t>(kPageSize - in_page, chunk_end - offset);
      const Page* page = chunk.page(static_cast<unsigned>(offset >> kPageBits) % kChunkPages);
      if (page != nullptr) {
        append(spans, mine, {page->bytes + in_page, piece});
      } else {
        append_hole(spans, piece);
      }
      offset += piece;
    }
  }
}

std::optional<uint64_t> File::next_data(const Inode& inode, uint64_t page) {
  std::optional<uint64_t> found;
  scan(inode, page / kChunkPages, [&](uint64_t index, const ChunkView& chunk) {
    for (unsigned slot = index == page / kChunkPages ? page % kChunkPages : 0; slot < kChunkPages; ++slot) {
      if (chunk.page(slot) == nullptr) continue;
      found = index * kChunkPages + slot;
      return false;
    }
    return true;
  });
  return found;
}

uint64_t File::next_hole(const Inode& inode, uint64_t page) {
  uint64_t next = page;  // everything in [page, next) is there
  scan(inode, page / kChunkPages, [&](uint64_t index, const ChunkView& chunk) {
    if (index != next / kChunkPages) return false;
    for (unsigned slot = next % kChunkPages; slot < kChunkPages; ++slot, ++next) {
      if (chunk.page(slot) == nullptr) return false;
    }
    return true;
  });
  return next;
}

uint64_t File::count(const Inode& inode, uint64_t first, uint64_t last) {
  uint64_t pages = 0;
  if (first >= last) return 0;
  scan(inode, first / kChunkPages, [&](uint64_t index, const ChunkView& chunk) {
    const uint64_t base = index * kChunkPages;
    if (base >= last) return false;
    const uint64_t begin = std::max(first, base), end = std::min(last, base + kChunkPages);
    for (uint64_t page = begin; page < end; ++page) {
      if (!chunk.at(static_cast<unsigned>(page - base)).none()) ++pages;
    }
    return true;
  });
  return pages;
}

}  // namespace turnbox::fs
