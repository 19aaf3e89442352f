#include "vmm/vsock/backlog.h"

#include <algorithm>

namespace turnbox::vsock {

void Backlog::append(std::span<const iovec> parts, size_t skip) {
  // What was consumed is moved out of the way only when it is most of the buffer: amortised O(1) a byte.
  if (at_ > 0 && at_ >= size()) {
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(at_));
    at_ = 0;
  }
  for (const iovec& part : parts) {
    const size_t skipped = std::min(skip, part.iov_len);
    skip -= skipped;
    const auto* from = static_cast<const std::byte*>(part.iov_base) + skipped;
    bytes_.insert(bytes_.end(), from, from + (part.iov_len - skipped));
  }
}

void Backlog::consume(size_t count) {
  at_ += std::min(count, size());
  if (empty()) clear();
}

void Backlog::clear() {
  // An idle connection keeps no memory.
  std::vector<std::byte>().swap(bytes_);
  at_ = 0;
}

}  // namespace turnbox::vsock
