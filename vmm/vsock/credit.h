// Credit of one connection, both ways: counters of 32 bits that wrap, and no byte of a peer's that our own
// arithmetic follows unchecked (virtio 1.2, section 5.10.6.3).
#pragma once

#include <algorithm>
#include <cstdint>

namespace turnbox::vsock {

// What we may still send to the guest. Invariant: in_flight() ≤ kMaxWindow, whatever the guest says.
class SendCredit {
 public:
  static constexpr uint32_t kMaxWindow = 16 * 1024 * 1024;

  explicit SendCredit(uint32_t start = 0) : tx_cnt_(start), peer_fwd_cnt_(start) {}

  // The guest's buf_alloc and fwd_cnt from a header. False when fwd_cnt names bytes that were never sent. A
  // fwd_cnt that lags is ignored: two guest threads may fill in and queue their headers in opposite order.
  [[nodiscard]] bool update(uint32_t buf_alloc, uint32_t fwd_cnt) {
    const uint32_t unread = tx_cnt_ - fwd_cnt;  // modulo 2^32
    if (unread > 2 * kMaxWindow) return false;
    if (unread < in_flight()) peer_fwd_cnt_ = fwd_cnt;
    window_ = std::min(buf_alloc, kMaxWindow);
    return true;
  }

  uint32_t in_flight() const { return tx_cnt_ - peer_fwd_cnt_; }
  // Zero too while the guest has shrunk its buffer below what is in flight.
  uint32_t free() const { return in_flight() >= window_ ? 0 : window_ - in_flight(); }
  void sent(uint32_t count) { tx_cnt_ += count; }

 private:
  uint32_t tx_cnt_;
  uint32_t peer_fwd_cnt_;
  uint32_t window_ = 0;
};

// What the guest may still send to us. Invariant: held() ≤ buf_alloc().
class ReceiveCredit {
 public:
  explicit ReceiveCredit(uint32_t buf_alloc, uint32_t start = 0)
      : buf_alloc_(buf_alloc), rx_cnt_(start), fwd_cnt_(start), told_(start) {}

  // `count` bytes arrived. False when the guest had no credit for them; nothing is counted then.
  [[nodiscard]] bool receive(uint32_t count) {
    if (count > buf_alloc_ - held()) return false;
    rx_cnt_ += count;
    return true;
  }
  // `count` of the bytes held went on to the host (or were dropped with its consent).
  void forward(uint32_t count) { fwd_cnt_ += std::min(count, held()); }

  uint32_t held() const { return rx_cnt_ - fwd_cnt_; }
  uint32_t buf_alloc() const { return buf_alloc_; }
  uint32_t fwd_cnt() const { return fwd_cnt_; }

  // True once the guest does not know of a quarter of its buffer that is free again.
  bool worth_telling() const { return fwd_cnt_ - told_ >= buf_alloc_ / 4; }
  void told() { told_ = fwd_cnt_; }

 private:
  uint32_t buf_alloc_;
  uint32_t rx_cnt_;
  uint32_t fwd_cnt_;
  uint32_t told_;  // the fwd_cnt of the last header that went to the guest
};

}  // namespace turnbox::vsock
