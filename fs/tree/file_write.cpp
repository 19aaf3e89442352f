// Changing the content of a file.
#include <algorithm>
#include <cstring>

#include "fs/tree/file.h"
#include "fs/tree/file_trie.h"
#include "vmm/sys/result.h"

namespace turnbox::fs {

using Fill = std::function<void(std::span<std::byte>)>;

// Joins pages that are neighbours in memory into one span for `fill`.
class File::Filler {
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

namespace {

struct Range {
  size_t begin, end;  // in a page
  bool whole() const { return begin == 0 && end == kPageSize; }
};

void zero_outside(Page* page, Range range) {
  std::memset(page->bytes, 0, range.begin);
  std::memset(page->bytes + range.end, 0, kPageSize - range.end);
}

// A page of our own with the old content outside of `range`.
Page* own_page(Nodes& nodes, PageRef old, Range range) {
  if (!old.none() && !nodes.pages().shared(old.page())) {
    if (old.unwritten()) zero_outside(old.page(), range);
    return old.page();
  }
  Page* page = nodes.pages().take();
  if (old.content() == nullptr) {
    zero_outside(page, range);
  } else if (!range.whole()) {
    std::memcpy(page, old.page(), sizeof *page);
  }
  if (!old.none()) nodes.pages().release(old.page());
  return page;
}

// From a single page to a chunk that holds it, or up by one level.
void grow(Nodes& nodes, Inode& inode) {
  if (inode.height == 0) {
    auto* chunk = nodes.make_packed<PageRef>(NodeKind::chunk, 2);
    chunk->epoch = inode.epoch;
    if (!inode.page.none()) *Nodes::insert(chunk, 0) = inode.page;
    inode.node = chunk;
  } else {
    auto* above = nodes.make_packed<Node*>(NodeKind::page_inner, 2);
    *Nodes::insert(above, 0) = inode.node;
    inode.node = above;
  }
  ++inode.height;
}

unsigned slot_of_page(uint64_t offset) {
  return static_cast<unsigned>(offset >> kPageBits) % kChunkPages;
}

// Pages below a node that could not be written in place or do not exist, in chunk `index`.
uint64_t chunk_needs(const Nodes& nodes, const ChunkView& chunk, bool ours, unsigned first, unsigned last) {
  uint64_t needed = 0;
  for (unsigned slot = first; slot <= last; ++slot) {
    const PageRef page = chunk.at(slot);
    if (page.none() || !ours || nodes.pages().shared(page.page())) ++needed;
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

// Removes the pages [begin, end), counted from the node's first; returns how many. The slot must be ours.
uint64_t remove_below(Nodes& nodes, Node*& slot, unsigned height, uint64_t begin, uint64_t end) {
  uint64_t gone = 0;
  if (height == 1) {
    auto* chunk = nodes.own_packed<PageRef>(slot);
    for (unsigned at = chunk->slot_at_or_after(static_cast<unsigned>(begin)); at < 64 && at < end;
         at = chunk->slot_at_or_after(at + 1), ++gone) {
      nodes.pages().release(chunk->find(at)->page());
      Nodes::erase(chunk, at);
      chunk->epoch = nodes.epoch;
    }
    return gone;
  }
  auto* inner = nodes.own_packed<Node*>(slot);
  const uint64_t span = trie::chunks_below(height - 1) * kChunkPages;
  for (unsigned at = inner->slot_at_or_after(static_cast<unsigned>(std::min<uint64_t>(begin / span, 64)));
       at < 64 && at * span < end; at = inner->slot_at_or_after(at + 1)) {
    Node*& child = *inner->find(at);
    const uint64_t base = at * span;
    const uint64_t from = begin > base ? begin - base : 0, to = std::min(end - base, span);
    if (from == 0 && to == span) {
      gone += count_pages(child, height - 1);
    } else {
      gone += remove_below(nodes, child, height - 1, from, to);
      if (child->count > 0) continue;
    }
    nodes.release(child);
    Nodes::erase(inner, at);
  }
  return gone;
}

}  // namespace

Chunk* File::edit_chunk(Nodes& nodes, Inode& inode, uint64_t index, size_t pages) {
  while (inode.height == 0 || !trie::covers(inode.height, index)) grow(nodes, inode);
  Node** slot = &inode.node;
  for (unsigned height = inode.height; height > 1; --height) {
    const unsigned at = trie::slot_of(index, height);
    const bool there = static_cast<Inner*>(*slot)->has(at);
    auto* inner = nodes.own_packed<Node*>(*slot, there ? 0 : 1);
    slot = there ? inner->find(at) : Nodes::insert(inner, at);
    if (there) continue;
    if (height == 2) {
      *slot = nodes.make_packed<PageRef>(NodeKind::chunk, pages);
    } else {
      *slot = nodes.make_packed<Node*>(NodeKind::page_inner, 1);
    }
  }
  auto* chunk = nodes.own_packed<PageRef>(*slot, pages);
  chunk->epoch = nodes.epoch;
  return chunk;
}

void File::remove(Nodes& nodes, Inode& inode, uint64_t first, uint64_t last) {
  if (count(inode, first, last) == 0) return;  // or paths would be copied for nothing
  if (inode.height == 0) {
    inode.pages = 0;
    return nodes.release_content(inode);
  }
  inode.pages -= static_cast<uint32_t>(remove_below(nodes, inode.node, inode.height, first, last));
  if (inode.node->count == 0) nodes.release_content(inode);
}

void File::zero(Nodes& nodes, Inode& inode, uint64_t offset, size_t size) {
  const ChunkView chunk = chunk_at(inode, offset >> kChunkBits);
  if (size == 0 || chunk.page(slot_of_page(offset)) == nullptr) return;
  PageRef* page = &inode.page;
  if (inode.height > 0) page = edit_chunk(nodes, inode, offset >> kChunkBits, 0)->find(slot_of_page(offset));
  *page = PageRef(own_page(nodes, *page, {0, 0}));
  std::memset(page->page()->bytes + offset % kPageSize, 0, size);
}

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

void File::write_chunk(Nodes& nodes, Inode& inode, uint64_t offset, uint64_t end, Filler& filler) {
  const unsigned last = slot_of_page(end - 1);
  const uint64_t mask = ((uint64_t{2} << last) - 1) & ~((uint64_t{1} << slot_of_page(offset)) - 1);
  const ChunkView now = File::chunk_at(inode, offset >> kChunkBits);
  const uint64_t there = now.chunk != nullptr ? now.chunk->bitmap : (now.single.none() ? 0 : 1);
  Chunk* chunk =
      edit_chunk(nodes, inode, offset >> kChunkBits, static_cast<size_t>(std::popcount(mask & ~there)));
  while (offset < end) {
    const size_t begin = offset % kPageSize;
    const Range range{begin, std::min<uint64_t>(kPageSize, begin + (end - offset))};
    const unsigned slot = slot_of_page(offset);
    PageRef* page = chunk->find(slot);
    if (page == nullptr) {
      page = Nodes::insert(chunk, slot);
      *page = PageRef(nullptr);
      ++inode.pages;
    }
    *page = PageRef(own_page(nodes, *page, range));
    filler.add(page->page()->bytes + begin, range.end - range.begin);
    offset += range.end - range.begin;
  }
}

void File::write(Nodes& nodes, Inode& inode, uint64_t offset, size_t size, const Fill& fill) {
  const uint64_t end = offset + size;
  Filler filler(fill);
  if (inode.height == 0 && end <= kPageSize) {
    if (inode.page.none()) ++inode.pages;
    inode.page =
        PageRef(own_page(nodes, inode.page, {static_cast<size_t>(offset), static_cast<size_t>(end)}));
    filler.add(inode.page.page()->bytes + offset, size);
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
  if (inode.height > 0 && trie::covers(inode.height, (keep - 1) / kChunkPages)) {
    remove(nodes, inode, keep, UINT64_MAX);
    if (inode.node == nullptr) return;
  }
  zero(nodes, inode, size, (kPageSize - size % kPageSize) % kPageSize);
}

}  // namespace turnbox::fs
