#include "fs/page/region.h"

#include <sys/mman.h>

#include <cstdint>

#include "vmm/sys/result.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace turnbox::fs {

void* map_region(size_t size) {
  // Twice the size always holds an aligned block; the ends go back at once.
  void* mapped =
      ::mmap(nullptr, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TURNBOX_ASSERT(mapped != MAP_FAILED);
  const auto start = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t aligned = (start + size - 1) & ~(uintptr_t{size} - 1);
  if (aligned > start) ::munmap(mapped, aligned - start);
  const uintptr_t tail = start + 2 * size - (aligned + size);
  if (tail > 0) ::munmap(reinterpret_cast<void*>(aligned + size), tail);
  return reinterpret_cast<void*>(aligned);
}

void unmap_region(void* region, size_t size) {
  mark_used(region, size);  // the address may come back from another mmap
  ::munmap(region, size);
}

#if defined(__SANITIZE_ADDRESS__)
void mark_free(const void* at, size_t size) {
  ASAN_POISON_MEMORY_REGION(at, size);
}
void mark_used(const void* at, size_t size) {
  ASAN_UNPOISON_MEMORY_REGION(at, size);
}
#else
void mark_free(const void*, size_t) {}
void mark_used(const void*, size_t) {}
#endif

}  // namespace turnbox::fs
