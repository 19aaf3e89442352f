// The vhost-user device of turnbox-vsockd: moves packets between the rings and the muxer.
//
// Queues: 0 rx (to the guest), 1 tx (from the guest), 2 event. The event queue is never served: QEMU keeps it
// to itself, and a guest that fills it or leaves it empty changes nothing here. One thread, the back end's.
// Invariants:
//  1. A header is copied out of guest memory once and judged from the copy. Payload is data: it goes between
//  guest
//     memory and the host socket by one readv or sendmsg.
//  2. At most one rx buffer is held between rounds, popped for a host socket that then had nothing to give.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "vmm/vhost/device.h"
#include "vmm/vsock/muxer.h"

namespace turnbox::vsock {

class VsockDevice final : public vhost::Device {
 public:
  VsockDevice(boost::asio::io_context& io, Muxer& muxer, uint64_t guest_cid);
  ~VsockDevice() override;

  const char* name() const override { return "vsock"; }
  unsigned queue_count() const override { return 3; }
  std::span<const std::byte> config() const override { return config_; }
  void serve(unsigned index, vhost::Queue& queue) override;
  void started(unsigned index, vhost::Queue& queue) override;
  void stopped(unsigned index) override;
  void reset() override;

 private:
  enum : unsigned { kRx = 0, kTx = 1 };

  void serve_rx(vhost::Queue& queue);
  void serve_tx(vhost::Queue& queue);
  void receive(const vhost::Chain& chain);
  bool send_one(vhost::Queue& queue);
  void pump_later();
  void pump();

  boost::asio::io_context& io_;
  Muxer& muxer_;
  std::array<std::byte, 8> config_;
  vhost::Queue* rx_ = nullptr;  // while started
  bool tx_started_ = false;
  std::optional<vhost::Chain> spare_;
  std::vector<iovec> parts_;  // scratch
  bool pump_posted_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for what is posted
};

}  // namespace turnbox::vsock
