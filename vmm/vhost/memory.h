// Guest memory as the front end shared it: a few mapped regions, and the two translations into them.
//
// Owned by the session; replaced as a whole by SET_MEM_TABLE, or changed by a region at a time (ADD_MEM_REG,
// REM_MEM_REG). Invariants:
//  1. No mapped byte can vanish: every region lies inside its file, on tmpfs, and the file is sealed against
//     shrinking. So no access raises SIGBUS.
//  2. Regions overlap neither in guest-physical nor in the front end's virtual addresses, and wrap in
//  neither.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "vmm/sys/fd.h"
#include "vmm/sys/memfd.h"
#include "vmm/vhost/messages.h"

namespace turnbox::vhost {

class Memory {
 public:
  Memory() = default;  // no region: every translation fails

  // Checks and maps all regions, or none. fds.size() == regions.size(). The descriptors are not needed
  // afterwards.
  static sys::Result<Memory> map(std::span<const Region> regions, std::span<const sys::Fd> fds);

  // One region more, checked against those that are there, or none. No byte that was mapped moves.
  sys::Status add(const Region& region, const sys::Fd& fd);
  // The region with these addresses and this size (the offset does not name it) is unmapped: nothing may
  // point into it any more.
  sys::Status remove(const Region& region);

  // `size` bytes at the front end's virtual address, all in one region; nullptr otherwise.
  std::byte* at_uva(uint64_t uva, uint64_t size) const;

  // Appends the guest-physical range as spans, one for each region it crosses. False, with `into` as it was,
  // when a byte of it is not guest memory. `size` is not 0.
  bool spans(uint64_t gpa, uint64_t size, std::vector<std::span<std::byte>>& into) const;

  bool empty() const { return mapped_.empty(); }
  bool has(const Region& region) const;

 private:
  struct Mapped {
    Region region;
    std::byte* at;  // of region.gpa
    sys::Mapping mapping;
  };
  sys::Status check_range(const Region& region) const;

  std::vector<Mapped> mapped_;
};

}  // namespace turnbox::vhost
