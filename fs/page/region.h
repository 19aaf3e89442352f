// Aligned anonymous memory from the kernel, for the pools below: a block's owner is found by masking an
// address.
#pragma once

#include <cstddef>

namespace turnbox::fs {

// `size` bytes of zeros at a multiple of `size` (a power of two ≥ 4096). Memory that the kernel refuses is a
// bug of the budgets above: it asserts.
void* map_region(size_t size);
void unmap_region(void* region, size_t size);

// For AddressSanitizer: a freed slot is poisoned, so that a stale pointer into a pool shows as it would into
// malloc.
void mark_free(const void* at, size_t size);
void mark_used(const void* at, size_t size);

}  // namespace turnbox::fs
