#include "vmm/vsock/device.h"

#include <algorithm>
#include <boost/asio/post.hpp>

#include "vmm/sys/bytes.h"

namespace turnbox::vsock {
namespace {

// Packets of one round outside serve(); the rest goes after whatever else the loop has to do.
constexpr unsigned kPumpShare = 64;

// The bytes of `parts` behind the first `skip`, at most `most`.
void slice(std::span<const std::span<std::byte>> parts, size_t skip, size_t most, std::vector<iovec>& into) {
  into.clear();
  for (const std::span<std::byte> part : parts) {
    const size_t skipped = std::min(skip, part.size());
    skip -= skipped;
    const size_t length = std::min(part.size() - skipped, most);
    most -= length;
    if (length > 0) into.push_back({part.data() + skipped, length});
  }
}

}  // namespace

VsockDevice::VsockDevice(boost::asio::io_context& io, Muxer& muxer, uint64_t guest_cid)
    : io_(io), muxer_(muxer) {
  sys::store_le(config_.data(), guest_cid);
  muxer_.on_output([this] { pump_later(); });
}

VsockDevice::~VsockDevice() {
  muxer_.on_output(nullptr);
}

void VsockDevice::started(unsigned index, vhost::Queue& queue) {
  if (index == kRx) rx_ = &queue;
  if (index == kTx) tx_started_ = true;
  muxer_.set_guest_up(rx_ != nullptr && tx_started_);
  if (index == kRx) pump_later();
}

void VsockDevice::stopped(unsigned index) {
  if (index == kRx) {
    if (spare_ && rx_ != nullptr) rx_->push(std::move(*spare_), 0);  // the guest takes an empty buffer back
    spare_.reset();
    rx_ = nullptr;
  }
  if (index == kTx) tx_started_ = false;
  muxer_.set_guest_up(rx_ != nullptr && tx_started_);
}

void VsockDevice::reset() {
  rx_ = nullptr;
  tx_started_ = false;
  spare_.reset();
  muxer_.set_guest_up(false);
  muxer_.reset();
}

void VsockDevice::serve(unsigned index, vhost::Queue& queue) {
  if (index == kRx) serve_rx(queue);
  if (index == kTx) serve_tx(queue);
}

// --- from the guest
// ------------------------------------------------------------------------------------------------

void VsockDevice::serve_tx(vhost::Queue& queue) {
  while (!queue.round_over()) {
    auto chain = queue.pop();
    if (!chain) break;
    receive(*chain);
    queue.push(std::move(*chain), 0);
  }
}

void VsockDevice::receive(const vhost::Chain& chain) {
  std::array<std::byte, kHeaderSize> bytes;
  vhost::ChainReader reader = chain.reader();
  if (!reader.read(bytes)) return muxer_.receive_short();
  const Header header = decode_header(bytes);
  if (header.len > kMaxPayload || header.len > reader.remaining()) return muxer_.receive_malformed(header);
  slice(chain.readable(), kHeaderSize, header.len, parts_);
  muxer_.receive(header, parts_);
}

// --- to the guest
// --------------------------------------------------------------------------------------------------

void VsockDevice::serve_rx(vhost::Queue& queue) {
  while (!queue.round_over() && muxer_.has_output() && send_one(queue)) {
  }
}

// False when there is no buffer, or after all nothing to put into it.
bool VsockDevice::send_one(vhost::Queue& queue) {
  if (!spare_) spare_ = queue.pop();
  if (!spare_) return false;
  if (spare_->writable_bytes() <= kHeaderSize) {
    spare_.reset();
    queue.fault("an rx buffer without room for a header and a byte");
    return false;
  }
  slice(spare_->writable(), kHeaderSize, kMaxPayload, parts_);
  const auto header = muxer_.next_packet(parts_);
  if (!header) return false;
  std::array<std::byte, kHeaderSize> bytes;
  encode_header(*header, bytes);
  vhost::ChainWriter writer = spare_->writer();
  const bool fits = writer.write(bytes);
  TURNBOX_ASSERT(fits);
  queue.push(std::move(*spare_), static_cast<uint32_t>(kHeaderSize) + header->len);
  spare_.reset();
  return true;
}

// Output that came up outside a round of the rx queue: the back end does not know of it.
void VsockDevice::pump_later() {
  if (pump_posted_ || rx_ == nullptr) return;
  pump_posted_ = true;
  boost::asio::post(io_, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) pump();
  });
}

void VsockDevice::pump() {
  pump_posted_ = false;
  if (rx_ == nullptr) return;
  unsigned sent = 0;
  while (sent < kPumpShare && muxer_.has_output() && send_one(*rx_)) ++sent;
  if (sent > 0) rx_->flush();
  if (sent == kPumpShare) pump_later();
}

}  // namespace turnbox::vsock
