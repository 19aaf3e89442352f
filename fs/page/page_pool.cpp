#include "fs/page/page_pool.h"

#include "fs/page/region.h"
#include "vmm/sys/result.h"

namespace turnbox::fs {

namespace {
alignas(4096) constinit const std::byte kZeros[65536] = {};
constexpr uint16_t kSlots = 511;  // the slab's first page holds the counts
}  // namespace

std::span<const std::byte> zeros() {
  return kZeros;
}

struct PagePool::Slab {
  Slab* next;
  Slab* prev;
  uint16_t used;        // pages taken
  uint16_t fresh;       // slots from here on were never taken
  uint16_t free_count;  // entries of free_slots
  uint16_t free_slots[kSlots];
  uint32_t counts[kSlots];

  Page* page(uint16_t slot) { return reinterpret_cast<Page*>(this) + 1 + slot; }
  bool full() const { return used == kSlots; }
};

PagePool::~PagePool() {
  for (Slab* list : {usable_, full_}) {
    while (list != nullptr) {
      Slab* next = list->next;
      unmap_region(list, kSlabSize);
      list = next;
    }
  }
}

PagePool::Slab* PagePool::slab_of(const Page* page) {
  return reinterpret_cast<Slab*>(reinterpret_cast<uintptr_t>(page) & ~uintptr_t{kSlabSize - 1});
}

uint32_t& PagePool::count_of(const Page* page) {
  Slab* slab = slab_of(page);
  return slab->counts[page - reinterpret_cast<const Page*>(slab) - 1];
}

void PagePool::link(Slab* slab) {
  Slab*& head = slab->full() ? full_ : usable_;
  slab->prev = nullptr;
  slab->next = head;
  if (head != nullptr) head->prev = slab;
  head = slab;
}

void PagePool::unlink(Slab* slab) {
  if (slab->next != nullptr) slab->next->prev = slab->prev;
  if (slab->prev != nullptr) {
    slab->prev->next = slab->next;
  } else {
    (slab == full_ ? full_ : usable_) = slab->next;
  }
}

PagePool::Slab* PagePool::usable_slab() {
  if (usable_ == nullptr) {
    static_assert(sizeof(Slab) <= kPageSize);
    link(static_cast<Slab*>(map_region(kSlabSize)));  // zeros: an empty slab
    ++slabs_;
    ++empty_slabs_;
  }
  return usable_;
}

Page* PagePool::take() {
  Slab* slab = usable_slab();
  if (slab->used == 0) --empty_slabs_;
  // A never used run first: neighbours. Freed slots only when the slab has been handed out once.
  const uint16_t slot = slab->fresh < kSlots ? slab->fresh++ : slab->free_slots[--slab->free_count];
  if (slab->used + 1 == kSlots) unlink(slab);
  ++slab->used;
  if (slab->full()) link(slab);
  slab->counts[slot] = 1;
  ++pages_;
  Page* page = slab->page(slot);
  mark_used(page, sizeof *page);
  return page;
}

void PagePool::release(Page* page) {
  Slab* slab = slab_of(page);
  const auto slot = static_cast<uint16_t>(page - reinterpret_cast<Page*>(slab) - 1);
  TURNBOX_ASSERT(slab->counts[slot] > 0);
  if (--slab->counts[slot] > 0) return;
  mark_free(page, sizeof *page);
  --pages_;
  const bool was_full = slab->full();
  if (was_full) unlink(slab);
  --slab->used;
  slab->free_slots[slab->free_count++] = slot;
  if (slab->used == 0) {
    slab->fresh = slab->free_count = 0;
    if (empty_slabs_ == kSpareSlabs) {
      if (!was_full) unlink(slab);
      unmap_region(slab, kSlabSize);
      --slabs_;
      return;
    }
    ++empty_slabs_;
  }
  if (was_full) link(slab);
}

}  // namespace turnbox::fs
