// Guest memory of a fake front end: one memfd, sealed as QEMU seals its own, mapped here, with a small
// allocator.
#pragma once

#include <map>
#include <vector>

#include "vmm/sys/bytes.h"
#include "vmm/sys/memfd.h"
#include "vmm/vhost/messages.h"

namespace turnbox::support {

// A test's precondition failed; Boost.Test prints the text.
[[noreturn]] void give_up(const std::string& text);

class GuestMemory {
 public:
  static constexpr uint64_t kGpa = 0x100000;        // memory begins at guest-physical 1 MiB …
  static constexpr uint64_t kUva = 0x7f5500000000;  // … and here in the pretended front end
  static constexpr int kQemuSeals = 7;              // SEAL, SHRINK, GROW

  explicit GuestMemory(size_t size, int seals = kQemuSeals);

  int fd() const { return fd_.get(); }
  size_t size() const { return map_.bytes().size(); }
  vhost::Region region() const { return {kGpa, size(), kUva, 0}; }
  uint64_t uva(uint64_t gpa) const { return gpa - kGpa + kUva; }

  std::span<std::byte> at(uint64_t gpa, size_t size);
  template <typename T>
  T load(uint64_t gpa) {
    return sys::load_le<T>(at(gpa, sizeof(T)).data());
  }
  template <typename T>
  void store(uint64_t gpa, T value) {
    sys::store_le(at(gpa, sizeof(T)).data(), value);
  }

  // A zeroed buffer, aligned to 4 KiB or to its size rounded up to a power of two; give() makes it free
  // again.
  uint64_t take(size_t size);
  void give(uint64_t gpa, size_t size);

 private:
  sys::Fd fd_;
  sys::Mapping map_;
  uint64_t next_ = kGpa;
  std::map<size_t, std::vector<uint64_t>> free_;
};

}  // namespace turnbox::support
