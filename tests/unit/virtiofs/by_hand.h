// A queue of one chain, made by hand: the bytes of a message cut into descriptors at odd places, so that nothing may
// lean on where the guest's buffers end.
#pragma once

#include <random>

#include "tests/support/fuse_peer.h"
#include "vmm/vhost/device.h"

namespace turnbox::virtiofs {

class OneChainQueue final : public vhost::Queue {
 public:
  explicit OneChainQueue(vhost::Chain chain) : chain_(std::move(chain)) {}

  std::optional<vhost::Chain> pop() override { return std::exchange(chain_, std::nullopt); }
  void push(vhost::Chain, uint32_t written) override {
    ++pushes;
    used = written;
  }
  bool round_over() const override { return false; }
  void flush() override {}
  bool broken() const override { return faulted; }
  void fault(const char*) override { faulted = true; }

  unsigned pushes = 0;
  uint32_t used = 0;
  bool faulted = false;

 private:
  std::optional<vhost::Chain> chain_;
};

class PeerByHand final : public support::FusePeer {
 public:
  explicit PeerByHand(vhost::Device& device, unsigned seed = 1) : device_(device), random_(seed) {}

  sys::Bytes exchange(std::span<const std::byte> readable, size_t room, unsigned queue) override;

 private:
  void cut(std::span<std::byte> bytes, vhost::Chain::Parts& parts);

  vhost::Device& device_;
  std::mt19937 random_;
};

}  // namespace turnbox::virtiofs
