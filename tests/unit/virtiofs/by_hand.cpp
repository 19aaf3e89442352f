#include "tests/unit/virtiofs/by_hand.h"

#include <stdexcept>

namespace turnbox::virtiofs {

void PeerByHand::cut(std::span<std::byte> bytes, vhost::Chain::Parts& parts) {
  std::uniform_int_distribution<size_t> small(1, 64), large(1, 70'000);
  while (!bytes.empty()) {
    const size_t size = std::min(bytes.size(), (random_() & 1) != 0 ? small(random_) : large(random_));
    parts.push_back(bytes.first(size));
    bytes = bytes.subspan(size);
  }
}

sys::Bytes PeerByHand::exchange(std::span<const std::byte> readable, size_t room, unsigned queue) {
  constexpr std::byte kUntouched{0xa5};
  sys::Bytes to_read(readable.begin(), readable.end());
  sys::Bytes to_write(room, kUntouched);
  vhost::Chain::Parts parts;
  cut(to_read, parts);
  const size_t readable_parts = parts.size();
  cut(to_write, parts);
  OneChainQueue ring(vhost::Chain(7, std::move(parts), readable_parts));
  device_.serve(queue, ring);
  if (ring.pushes != 1) throw std::runtime_error("a chain was not given back exactly once");
  if (ring.used > room) throw std::runtime_error("more was used of a chain than it holds");
  if (ring.faulted) throw std::runtime_error("the device broke its queue");
  to_write.resize(ring.used);
  return to_write;
}

}  // namespace turnbox::virtiofs
