#include "vmm/vhost/memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include <algorithm>
#include <string>

namespace turnbox::vhost {
namespace {

using sys::ErrorKind;

constexpr uint64_t kPage = 4096;

bool wraps(uint64_t start, uint64_t size) {
  return start + size < start;
}

bool overlap(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size) {
  return a < b + b_size && b < a + a_size;
}

bool same(const Region& a, const Region& b) {
  return a.gpa == b.gpa && a.uva == b.uva && a.size == b.size;
}

sys::Status check_file(int fd, const Region& region) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return sys::fail(ErrorKind::protocol,
                     "a memory region's file is not sealed against shrinking; use memory-backend-memfd");
  }
  // Huge pages raise SIGBUS when the pool is empty, whatever the seals.
  struct statfs fs;
  if (::fstatfs(fd, &fs) < 0) return sys::fail_errno("cannot tell the file system of a memory region");
  if (fs.f_type != TMPFS_MAGIC) return sys::fail(ErrorKind::protocol, "a memory region is on huge pages");
  TRY_ASSIGN(const size_t size, sys::file_size(fd));
  if (region.offset + region.size > size) {
    return sys::fail(ErrorKind::protocol, "a memory region reaches past the end of its file");
  }
  return {};
}

}  // namespace

sys::Result<Memory> Memory::map(std::span<const Region> regions, std::span<const sys::Fd> fds) {
  TURNBOX_ASSERT(regions.size() == fds.size());
  Memory memory;
  for (size_t i = 0; i < regions.size(); ++i) TRY(memory.add(regions[i], fds[i]));
  return memory;
}

sys::Status Memory::check_range(const Region& region) const {
  if (region.size == 0) return sys::fail(ErrorKind::protocol, "a memory region is empty");
  if (wraps(region.gpa, region.size) || wraps(region.uva, region.size) || wraps(region.offset, region.size)) {
    return sys::fail(ErrorKind::protocol, "a memory region wraps around the address space");
  }
  for (const Mapped& other : mapped_) {
    if (overlap(region.gpa, region.size, other.region.gpa, other.region.size) ||
        overlap(region.uva, region.size, other.region.uva, other.region.size)) {
      return sys::fail(ErrorKind::protocol, "two memory regions overlap");
    }
  }
  return {};
}

sys::Status Memory::add(const Region& region, const sys::Fd& fd) {
  if (mapped_.size() >= kMaxMemSlots) {
    return sys::fail(ErrorKind::protocol, "there are " + std::to_string(kMaxMemSlots) + " regions already");
  }
  TRY(check_range(region));
  TRY(check_file(fd.get(), region));
  const uint64_t before = region.offset % kPage;
  auto mapping = sys::Mapping::map(fd.get(), region.size + before, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_NORESERVE, region.offset - before);
  if (!mapping) return context("a memory region", std::move(mapping).error());
  std::byte* at = mapping->bytes().data() + before;
  mapped_.push_back({region, at, std::move(*mapping)});
  return {};
}

bool Memory::has(const Region& region) const {
  return std::any_of(mapped_.begin(), mapped_.end(),
                     [&](const Mapped& mapped) { return same(mapped.region, region); });
}

sys::Status Memory::remove(const Region& region) {
  const auto found = std::find_if(mapped_.begin(), mapped_.end(),
                                  [&](const Mapped& mapped) { return same(mapped.region, region); });
  if (found == mapped_.end()) return sys::fail(ErrorKind::protocol, "there is no such memory region");
  mapped_.erase(found);
  return {};
}

std::byte* Memory::at_uva(uint64_t uva, uint64_t size) const {
  for (const Mapped& mapped : mapped_) {
    const uint64_t offset = uva - mapped.region.uva;  // huge when uva is below the region
    if (offset < mapped.region.size && size <= mapped.region.size - offset) return mapped.at + offset;
  }
  return nullptr;
}

bool Memory::spans(uint64_t gpa, uint64_t size, std::vector<std::span<std::byte>>& into) const {
  if (wraps(gpa, size)) return false;
  const size_t before = into.size();
  while (size > 0) {
    const auto found = std::find_if(mapped_.begin(), mapped_.end(), [&](const Mapped& mapped) {
      return gpa - mapped.region.gpa < mapped.region.size;
    });
    if (found == mapped_.end()) {
      into.resize(before);
      return false;
    }
    const uint64_t offset = gpa - found->region.gpa;
    const uint64_t part = std::min(size, found->region.size - offset);
    into.emplace_back(found->at + offset, static_cast<size_t>(part));
    gpa += part;
    size -= part;
  }
  return true;
}

}  // namespace turnbox::vhost
