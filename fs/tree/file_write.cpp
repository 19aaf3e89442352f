// Changing the content of a file.
#include <algorithm>
#include <cstring>

#include "fs/tree/file.h"
#include "fs/tree/file_trie.h"
#include "vmm/sys/result.h"

namespace turnbox::fs {
namespace {

using Fill = std::function<void(std::span<std::byte>)>;

// Joins pages that are neighbours in memory into one span for `fill`.
class Filler {
 public:
  explicit Filler(const Fill& fill) : fill_(fill) {}
  ~Filler() { flush(); }
  Filler(const Filler&) = delete;
  Filler& operator=(const Filler&) = delete;
  void add(std::byte* at, size_t size) {
    if (at_ + size_ != at) flush(), at_ = at;
    size_ += size;
  }

 private:
  void flush() {
    if (size_ > 0) fill_({at_, size_});
    size_ = 0;
  }
  const Fill& fill_;
  std::byte* at_ = nullptr;
  size_t size_ = 0;
};

struct Range {
  size_t begin, end;  // in a page
  bool whole() const { return begin == 0 && end == kPageSize; }
};

// A page of our own with the old content outside of `range`; null stands for a hole.
Page* own_page(Nodes& nodes, Page* old, Range range) {
  if (old != nullptr && !nodes.pages().shared(old)) return old;
  Page* page = nodes.pages().take();
  if (old != nullptr) {
    if (!range.whole()) std::memcpy(page, old, sizeof *page);
    nodes.pages().release(old);
  } else {
    std::memset(page->bytes, 0, range.begin);
    std::memset(page->bytes + range.end, 0, kPageSize - range.end);
  }
  return page;
}

// From a single page to a chunk that holds it, or up by one level.
void grow(Nodes& nodes, Inode& inode) {
  if (inode.height == 0) {
    auto* chunk = nodes.make_packed<Page*>(NodeKind::chunk, 2);
    chunk->epoch = inode.epoch;
    if (inode.page != nullptr) *Nodes::insert(chunk, 0) = inode.page;
    inode.node = chunk;
  } else {
    auto* above = nodes.make_packed<Node*>(NodeKind::page_inner, 2);
    *Nodes::insert(above, 0) = inode.node;
    inode.node = above;
  }
  ++inode.height;
}

// The chunk, ours, made where it is missing, with room for `pages` more.
Chunk* edit_chunk(Nodes& nodes, Inode& inode, uint64_t index, size_t pages) {
  while (inode.height == 0 || !trie::covers(inode.height, index)) grow(nodes, inode);
  Node** slot = &inode.node;
  for (unsigned height = inode.height; height > 1; --height) {
    const unsigned at = trie::slot_of(index, height);
    const bool there = static_cast<Inner*>(*slot)->has(at);
    auto* inner = nodes.own_packed<Node*>(*slot, there ? 0 : 1);
    slot = there ? inner->find(at) : Nodes::insert(inner, at);
    if (there) continue;
    if (height == 2) {
      *slot = nodes.make_packed<Page*>(NodeKind::chunk, pages);
    } else {
      *slot = nodes.make_packed<Node*>(NodeKind::page_inner, 1);
    }
  }
  auto* chunk = nodes.own_packed<Page*>(*slot, pages);
  chunk->epoch = nodes.epoch;
  return chunk;
}

unsigned slot_of_page(uint64_t offset) {
  return static_cast<unsigned>(offset >> kPageBits) % kChunkPages;
}

void write_chunk(Nodes& nodes, Inode& inode, uint64_t offset, uint64_t end, Filler& filler) {
  const unsigned last = slot_of_page(end - 1);
  const uint64_t mask = ((uint64_t{2} << last) - 1) & ~((uint64_t{1} << slot_of_page(offset)) - 1);
  const ChunkView now = File::chunk_at(inode, offset >> kChunkBits);
  const uint64_t there = now.chunk != nullptr ? now.chunk->bitmap : (now.single != nullptr ? 1 : 0);
  Chunk* chunk =
      edit_chunk(nodes, inode, offset >> kChunkBits, static_cast<size_t>(std::popcount(mask & ~there)));
  while (offset < end) {
    const size_t begin = offset % kPageSize;
    const Range range{begin, std::min<uint64_t>(kPageSize, begin + (end - offset))};
    const unsigned slot = slot_of_page(offset);
    Page** page = chunk->find(slot);
    if (page == nullptr) {
      page = Nodes::insert(chunk, slot);
      *page = nullptr;
      ++inode.pages;
    }
    *page = own_page(nodes, *page, range);
    filler.add((*page)->bytes + begin, range.end - range.begin);
    offset += range.end - range.begin;
  }
}

// Pages below a node that could not be written in place or do not exist, in chunk `index`.
uint64_t chunk_needs(const Nodes& nodes, const ChunkView& chunk, bool ours, unsigned first, unsigned last) {
  uint64_t needed = 0;
  for (unsigned slot = first; slot <= last; ++slot) {
    const Page* page = chunk.page(slot);
    if (page == nullptr || !ours || nodes.pages().shared(page)) ++needed;
  }
  return needed;
}

// Whether every node on the way to the chunk has count 1.
bool path_is_ours(const Inode& inode, uint64_t index) {
  const Node* node = inode.node;
  for (unsigned height = inode.height; height >= 1; --height) {
    if (node->refs > 1) return false;
    if (height > 1) node = *static_cast<const Inner*>(node)->find(trie::slot_of(index, height));
  }
  return true;
}

uint64_t count_pages(const Node* node, unsigned height) {
  if (height == 1) return node->count;
  uint64_t pages = 0;
  const auto* inner = static_cast<const Inner*>(node);
  for (unsigned i = 0; i < inner->count; ++i) pages += count_pages(inner->items()[i], height - 1);
  return pages;
}

// Removes pages at or after `keep` (counted from the node's first); returns how many. The slot must be ours.
uint64_t cut_below(Nodes& nodes, Node*& slot, unsigned height, uint64_t keep) {
  uint64_t gone = 0;
  if (height == 1) {
    auto* chunk = nodes.own_packed<Page*>(slot);
    for (unsigned at = chunk->slot_at_or_after(static_cast<unsigned>(keep)); at < 64;
         at = chunk->slot_at_or_after(at + 1), ++gone) {
      nodes.pages().release(*chunk->find(at));
      Nodes::erase(chunk, at);
      chunk->epoch = nodes.epoch;
    }
    return gone;
  }
  auto* inner = nodes.own_packed<Node*>(slot);
  const uint64_t span = trie::chunks_below(height - 1) * kChunkPages;
  const auto edge = static_cast<unsigned>(keep / span);
  for (unsigned at = inner->slot_at_or_after(edge); at < 64; at = inner->slot_at_or_after(at + 1)) {
    Node*& child = *inner->find(at);
    if (at == edge && keep % span != 0) {
      gone += cut_below(nodes, child, height - 1, keep % span);
      if (child->count > 0) continue;
    } else {
      gone += count_pages(child, height - 1);
    }
    nodes.release(child);
    Nodes::erase(inner, at);
  }
  return gone;
}

// Zeroes the bytes past `size` in the page that holds the last of them.
void zero_tail(Nodes& nodes, Inode& inode, uint64_t size) {
  const size_t begin = size % kPageSize;
  if (begin == 0) return;
  const ChunkView chunk = File::chunk_at(inode, size >> kChunkBits);
  if (chunk.page(slot_of_page(size)) == nullptr) return;
  Page** page = &inode.page;
  if (inode.height > 0) page = edit_chunk(nodes, inode, size >> kChunkBits, 0)->find(slot_of_page(size));
  *page = own_page(nodes, *page, {0, 0});
  std::memset((*page)->bytes + begin, 0, kPageSize - begin);
}

}  // namespace

uint64_t File::pages_needed(const Nodes& nodes, const Inode& inode, uint64_t offset, uint64_t size) {
  uint64_t needed = 0;
  const uint64_t end = offset + size;
  while (offset < end) {
    const uint64_t index = offset >> kChunkBits;
    const uint64_t chunk_end = std::min(end, (index + 1) << kChunkBits);
    const ChunkView chunk = chunk_at(inode, index);
    const bool ours = chunk.chunk == nullptr || path_is_ours(inode, index);
    needed += chunk_needs(nodes, chunk, ours, slot_of_page(offset), slot_of_page(chunk_end - 1));
    offset = chunk_end;
  }
  return needed;
}

void File::write(Nodes& nodes, Inode& inode, uint64_t offset, size_t size, const Fill& fill) {
  const uint64_t end = offset + size;
  Filler filler(fill);
  if (inode.height == 0 && end <= kPageSize) {
    if (inode.page == nullptr) ++inode.pages;
    inode.page = own_page(nodes, inode.page, {static_cast<size_t>(offset), static_cast<size_t>(end)});
    filler.add(inode.page->bytes + offset, size);
    return;
  }
  while (offset < end) {
    const uint64_t chunk_end = std::min(end, ((offset >> kChunkBits) + 1) << kChunkBits);
    write_chunk(nodes, inode, offset, chunk_end, filler);
    offset = chunk_end;
  }
}

void File::cut(Nodes& nodes, Inode& inode, uint64_t size) {
  if (inode.node == nullptr) return;
  const uint64_t keep = (size + kPageSize - 1) >> kPageBits;
  if (keep == 0) {
    nodes.release_content(inode);
    inode.pages = 0;
    return;
  }
  if (inode.height == 0) return zero_tail(nodes, inode, size);
  if (trie::covers(inode.height, (keep - 1) / kChunkPages)) {
    inode.pages -= static_cast<uint32_t>(cut_below(nodes, inode.node, inode.height, keep));
    if (inode.node->count == 0) return nodes.release_content(inode);
  }
  zero_tail(nodes, inode, size);
}

}  // namespace turnbox::fs
