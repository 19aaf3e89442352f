#include "fs/page/slab.h"

#include <bit>

#include "fs/page/region.h"
#include "vmm/sys/result.h"

namespace turnbox::fs {
namespace {

struct Free {
  Free* next;
};

// Steps of 16 bytes up to 256, then eight steps to each doubling.
uint32_t class_of(size_t size) {
  if (size <= 256) return size == 0 ? 0 : static_cast<uint32_t>((size - 1) / 16);
  const auto doubling = static_cast<unsigned>(std::bit_width(size - 1)) - 9;  // 0 for 257..512
  const size_t step = size_t{32} << doubling;
  return static_cast<uint32_t>(16 + 8 * doubling + (size - (size_t{256} << doubling) - 1) / step);
}

size_t class_size(uint32_t index) {
  if (index < 16) return size_t{16} * (index + 1);
  const unsigned doubling = (index - 16) / 8;
  return (size_t{256} << doubling) + (size_t{32} << doubling) * ((index - 16) % 8 + 1);
}

}  // namespace

struct SlabPool::Slab {
  Slab* next;
  Slab* prev;
  Free* free;
  uint32_t index;  // size class
  uint32_t size;
  uint32_t used, slots, fresh;

  static constexpr size_t kHeader = 64;
  bool full() const { return used == slots; }
};

SlabPool::~SlabPool() {
  for (const Lists& lists : classes_) {
    for (Slab* slab : {lists.usable, lists.full}) {
      while (slab != nullptr) {
        Slab* next = slab->next;
        unmap_region(slab, kSlabSize);
        slab = next;
      }
    }
  }
}

SlabPool::Slab* SlabPool::slab_of(const void* block) {
  return reinterpret_cast<Slab*>(reinterpret_cast<uintptr_t>(block) & ~uintptr_t{kSlabSize - 1});
}

size_t SlabPool::rounded(size_t size) {
  return class_size(class_of(size));
}
size_t SlabPool::size_of(const void* block) {
  return slab_of(block)->size;
}

void SlabPool::link(Slab* slab) {
  Lists& lists = classes_[slab->index];
  Slab*& head = slab->full() ? lists.full : lists.usable;
  slab->prev = nullptr;
  slab->next = head;
  if (head != nullptr) head->prev = slab;
  head = slab;
}

void SlabPool::unlink(Slab* slab) {
  Lists& lists = classes_[slab->index];
  if (slab->next != nullptr) slab->next->prev = slab->prev;
  if (slab->prev != nullptr) {
    slab->prev->next = slab->next;
  } else {
    (slab == lists.full ? lists.full : lists.usable) = slab->next;
  }
}

SlabPool::Slab* SlabPool::new_slab(size_t size, uint32_t index) {
  static_assert(sizeof(Slab) <= Slab::kHeader);
  auto* slab = static_cast<Slab*>(map_region(kSlabSize));
  slab->index = index;
  slab->size = static_cast<uint32_t>(size);
  slab->slots = static_cast<uint32_t>((kSlabSize - Slab::kHeader) / size);
  link(slab);
  ++slabs_;
  return slab;
}

void* SlabPool::take(size_t size) {
  TURNBOX_ASSERT(size <= kLargest);
  const uint32_t index = class_of(size);
  Slab* slab = classes_[index].usable;
  if (slab == nullptr) slab = new_slab(class_size(index), index);
  void* block;
  if (slab->free != nullptr) {
    block = slab->free;
    mark_used(block, slab->size);
    slab->free = slab->free->next;
  } else {
    block = reinterpret_cast<std::byte*>(slab) + Slab::kHeader + size_t{slab->size} * slab->fresh++;
  }
  if (slab->used + 1 == slab->slots) unlink(slab);
  ++slab->used;
  if (slab->full()) link(slab);
  used_bytes_ += slab->size;
  return block;
}

void SlabPool::give(void* block) {
  Slab* slab = slab_of(block);
  used_bytes_ -= slab->size;
  const bool was_full = slab->full();
  if (was_full) unlink(slab);
  --slab->used;
  Lists& lists = classes_[slab->index];
  // An empty slab goes back to the kernel unless it is the last of its class with room.
  if (slab->used == 0 && lists.usable != nullptr &&
      (was_full || slab->next != nullptr || slab->prev != nullptr)) {
    if (!was_full) unlink(slab);
    unmap_region(slab, kSlabSize);
    --slabs_;
    return;
  }
  auto* free = static_cast<Free*>(block);
  free->next = slab->free;
  slab->free = free;
  mark_free(block, slab->size);
  if (was_full) link(slab);
}

}  // namespace turnbox::fs
