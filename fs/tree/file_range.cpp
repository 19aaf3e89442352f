// Whole ranges of a file's pages: holes punched, pages allocated, pages put in from elsewhere.
#include <algorithm>

#include "fs/tree/file.h"

namespace turnbox::fs {
namespace {

uint64_t page_at_or_after(uint64_t offset) {
  return (offset + kPageSize - 1) >> kPageBits;
}

unsigned slot_of(uint64_t page) {
  return static_cast<unsigned>(page % kChunkPages);
}

}  // namespace

void File::punch(Nodes& nodes, Inode& inode, uint64_t offset, uint64_t end) {
  if (inode.node == nullptr) return;
  const uint64_t first = page_at_or_after(offset), last = end >> kPageBits;
  if (first > last) return zero(nodes, inode, offset, end - offset);  // inside one page
  zero(nodes, inode, offset, (first << kPageBits) - offset);
  zero(nodes, inode, last << kPageBits, end % kPageSize);
  remove(nodes, inode, first, last);
}

void File::reserve(Nodes& nodes, Inode& inode, uint64_t first, uint64_t last) {
  if (inode.height == 0 && last == 1) {
    if (!inode.page.none()) return;
    inode.page = PageRef(nodes.pages().take(), true);
    ++inode.pages;
    return;
  }
  for (uint64_t page = first; page < last;) {
    const uint64_t index = page / kChunkPages, end = std::min(last, (index + 1) * kChunkPages);
    const uint64_t missing = end - page - count(inode, page, end);
    if (missing == 0) {
      page = end;
      continue;
    }
    Chunk* chunk = edit_chunk(nodes, inode, index, missing);
    for (; page < end; ++page) {
      if (chunk->has(slot_of(page))) continue;
      *Nodes::insert(chunk, slot_of(page)) = PageRef(nodes.pages().take(), true);
      ++inode.pages;
    }
  }
}

void File::place(Nodes& nodes, Inode& inode, uint64_t first, std::span<const PageRef> pages) {
  remove(nodes, inode, first, first + pages.size());
  if (inode.node == nullptr && first == 0 && pages.size() == 1) {
    inode.page = pages[0];
    if (!pages[0].none()) ++inode.pages;
    return;
  }
  for (size_t at = 0; at < pages.size();) {
    const uint64_t index = (first + at) / kChunkPages;
    const size_t end = std::min<uint64_t>(pages.size(), (index + 1) * kChunkPages - first);
    const auto there = static_cast<size_t>(std::count_if(pages.begin() + static_cast<std::ptrdiff_t>(at),
                                                         pages.begin() + static_cast<std::ptrdiff_t>(end),
                                                         [](PageRef page) { return !page.none(); }));
    Chunk* chunk = there > 0 ? edit_chunk(nodes, inode, index, there) : nullptr;
    for (; at < end; ++at) {
      if (pages[at].none()) continue;
      *Nodes::insert(chunk, slot_of(first + at)) = pages[at];
      ++inode.pages;
    }
  }
}

}  // namespace turnbox::fs
