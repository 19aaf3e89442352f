// Small blocks for the tree's nodes, in size classes, cut from 256 KiB slabs.
//
// Owned by the tree's thread, which alone takes and frees. A block's size class is told by its slab, so a
// block costs no header. Sizes up to kLargest; a larger block is a bug.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace turnbox::fs {

class SlabPool {
 public:
  static constexpr size_t kLargest = 8192;

  SlabPool() = default;
  ~SlabPool();
  SlabPool(const SlabPool&) = delete;
  SlabPool& operator=(const SlabPool&) = delete;

  void* take(size_t size);  // bytes unspecified, 16-byte aligned
  void give(void* block);
  static size_t rounded(size_t size);  // what take(size) really holds
  static size_t size_of(const void* block);

  uint64_t used_bytes() const { return used_bytes_; }
  uint64_t mapped_bytes() const { return slabs_ * kSlabSize; }

 private:
  static constexpr size_t kSlabSize = size_t{256} << 10;
  static constexpr size_t kClasses = 56;
  struct Slab;
  static Slab* slab_of(const void* block);
  void link(Slab* slab);
  void unlink(Slab* slab);
  Slab* new_slab(size_t size, uint32_t index);

  struct Lists {
    Slab* usable = nullptr;
    Slab* full = nullptr;
  };
  std::array<Lists, kClasses> classes_{};
  uint64_t used_bytes_ = 0, slabs_ = 0;
};

}  // namespace turnbox::fs
