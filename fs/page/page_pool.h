// Counted 4 KiB pages of file content, cut from 2 MiB slabs.
//
// Owned by the tree's thread, which alone takes, counts and frees. Any thread may read a page that a snapshot
// reaches.
//
// Invariants:
//  1. A page with a count above one is never written.
//  2. Counts stand in the slab's first page, not in the pages: a reader never shares a cache line with a
//  count.
//  3. Pages taken one after the other are neighbours in memory where the slab allows, so that runs merge into
//  one span.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace turnbox::fs {

inline constexpr size_t kPageSize = 4096;
inline constexpr unsigned kPageBits = 12;

// A page is its bytes; where it stands tells the rest.
struct Page {
  std::byte bytes[kPageSize];
};

// 64 KiB of zeros, what a hole reads as.
std::span<const std::byte> zeros();

class PagePool {
 public:
  PagePool() = default;
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  Page* take();  // count 1, bytes unspecified
  void retain(const Page* page) { ++count_of(page); }
  void release(Page* page);
  bool shared(const Page* page) const { return count_of(page) > 1; }

  uint64_t pages() const { return pages_; }
  uint64_t mapped_bytes() const { return slabs_ * kSlabSize; }

 private:
  static constexpr size_t kSlabSize = size_t{2} << 20;
  static constexpr size_t kSpareSlabs =
      4;  // empty ones kept, so that a file written and removed maps nothing
  struct Slab;
  static Slab* slab_of(const Page* page);
  static uint32_t& count_of(const Page* page);
  Slab* usable_slab();
  void link(Slab* slab);
  void unlink(Slab* slab);

  Slab* usable_ = nullptr;  // slabs with a free page, the one in use first
  Slab* full_ = nullptr;
  uint64_t pages_ = 0, slabs_ = 0;
  size_t empty_slabs_ = 0;
};

}  // namespace turnbox::fs
