#include "tests/support/guest_memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace turnbox::support {

void give_up(const std::string& text) {
  throw std::runtime_error(text);
}

GuestMemory::GuestMemory(size_t size, int seals) {
  auto fd = sys::make_memfd("guest-memory", size);
  if (!fd) give_up(fd.error().text);
  fd_ = std::move(*fd);
  if (seals != 0 && ::fcntl(fd_.get(), F_ADD_SEALS, seals) < 0) give_up("cannot seal guest memory");
  auto map = sys::Mapping::map(fd_.get(), size, PROT_READ | PROT_WRITE, MAP_SHARED);
  if (!map) give_up(map.error().text);
  map_ = std::move(*map);
}

std::span<std::byte> GuestMemory::at(uint64_t gpa, size_t size) {
  if (gpa < kGpa || gpa - kGpa > map_.bytes().size() || size > map_.bytes().size() - (gpa - kGpa)) {
    give_up("the test itself reached outside guest memory");
  }
  return map_.bytes().subspan(gpa - kGpa, size);
}

uint64_t GuestMemory::take(size_t size) {
  const size_t rounded = std::bit_ceil(std::max<size_t>(size, 16));
  auto& free = free_[rounded];
  uint64_t gpa;
  if (!free.empty()) {
    gpa = free.back();
    free.pop_back();
  } else {
    const size_t alignment = std::min<size_t>(rounded, 4096);
    gpa = (next_ + alignment - 1) / alignment * alignment;
    next_ = gpa + rounded;
  }
  auto bytes = at(gpa, rounded);
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  return gpa;
}

void GuestMemory::give(uint64_t gpa, size_t size) {
  free_[std::bit_ceil(std::max<size_t>(size, 16))].push_back(gpa);
}

}  // namespace turnbox::support
