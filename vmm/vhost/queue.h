// One split virtqueue as a device sees it: pop checked chains, push used lengths.
//
// (Interface agreed with fs/virtiofs and vmm/vsock; the ring itself is vring.h.)
// Invariants:
//  1. Every span of a Chain lies inside guest memory as mapped now; it is bounds-checked once, at pop.
//  2. Spans are data: their bytes may change at any time under the reader. Copy a header out once, then check
//  it.
//  3. A queue that broke a rule (docs/hostile-guest) is broken: pop() gives nothing more, push() is ignored.
//  4. A chain belongs to the run of the ring it was popped from: one pushed after a stop is ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace turnbox::vhost {

// Reads the device-readable part of a chain front to back. Bytes are guest memory.
class ChainReader {
 public:
  explicit ChainReader(std::span<const std::span<std::byte>> parts);
  size_t remaining() const { return remaining_; }
  // Copies exactly into.size() bytes, or nothing and false.
  bool read(std::span<std::byte> into);
  bool skip(size_t count);

 private:
  std::span<const std::span<std::byte>> parts_;
  size_t offset_ = 0;  // in parts_.front()
  size_t remaining_ = 0;
};

// Writes the device-writable part front to back, and tells how much was written (used.len).
class ChainWriter {
 public:
  explicit ChainWriter(std::span<const std::span<std::byte>> parts);
  size_t remaining() const { return remaining_; }
  size_t written() const { return written_; }
  // Copies all of `bytes`, or nothing and false.
  bool write(std::span<const std::byte> bytes);
  // Leaves `count` bytes free to be filled by the returned writer later (a reply header whose length is known
  // only after its body); the bytes count as written. Empty when there is no room.
  std::optional<ChainWriter> reserve(size_t count);

 private:
  std::span<const std::span<std::byte>> parts_;
  size_t offset_ = 0;  // in parts_.front()
  size_t remaining_ = 0;
  size_t written_ = 0;
};

// A popped chain. Move-only: it is pushed back exactly once.
class Chain {
 public:
  using Parts = std::vector<std::span<std::byte>>;

  Chain() = default;
  // `run` counts the starts of the ring, see invariant 4.
  Chain(uint16_t head, Parts parts, size_t readable_parts, uint64_t run = 0);
  Chain(Chain&&) noexcept = default;
  Chain& operator=(Chain&&) noexcept = default;

  uint16_t head() const { return head_; }
  uint64_t run() const { return run_; }
  size_t readable_bytes() const { return readable_bytes_; }
  size_t writable_bytes() const { return writable_bytes_; }
  std::span<const std::span<std::byte>> readable() const { return {parts_.data(), readable_parts_}; }
  std::span<const std::span<std::byte>> writable() const {
    return {parts_.data() + readable_parts_, parts_.size() - readable_parts_};
  }
  ChainReader reader() const { return ChainReader(readable()); }
  ChainWriter writer() const { return ChainWriter(writable()); }
  // Gives the vector back to the ring, which uses it for a later chain: no allocation in the steady state.
  Parts take_parts() && { return std::move(parts_); }

 private:
  uint16_t head_ = 0;
  uint64_t run_ = 0;
  Parts parts_;
  size_t readable_parts_ = 0;
  size_t readable_bytes_ = 0;
  size_t writable_bytes_ = 0;
};

class Queue {
 public:
  virtual ~Queue() = default;
  // Empty when the ring is empty, stopped or broken. An empty ring asks the guest to kick again, so a device
  // that saw one needs no polling; one that leaves chains in the ring (a receive queue) is not called for
  // them.
  virtual std::optional<Chain> pop() = 0;
  // used.len = `written`, at most chain.writable_bytes(). The guest is notified once per round, when it asks
  // for it.
  virtual void push(Chain chain, uint32_t written) = 0;
  // True once this round has done its share of work; the back end calls serve() again after other queues had
  // theirs. Always false outside serve().
  virtual bool round_over() const = 0;
  // For pushes outside serve(): notify now if the guest asked for it.
  virtual void flush() = 0;
  virtual bool broken() const = 0;
  // A breach found by the device itself (a FUSE or vsock rule): breaks this queue only. `rule` is a literal.
  virtual void fault(const char* rule) = 0;
};

}  // namespace turnbox::vhost
