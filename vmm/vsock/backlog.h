// Bytes of the guest's that its host socket would not take yet. Bounded by the caller, through the guest's
// credit.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <vector>

namespace turnbox::vsock {

class Backlog {
 public:
  bool empty() const { return at_ == bytes_.size(); }
  size_t size() const { return bytes_.size() - at_; }
  std::span<const std::byte> front() const { return {bytes_.data() + at_, size()}; }

  // All of `parts` but the first `skip` bytes.
  void append(std::span<const iovec> parts, size_t skip);
  void consume(size_t count);
  void clear();

 private:
  std::vector<std::byte> bytes_;
  size_t at_ = 0;  // bytes before it are gone already
};

}  // namespace turnbox::vsock
