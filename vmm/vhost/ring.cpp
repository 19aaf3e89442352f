#include "vmm/vhost/ring.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <boost/asio/post.hpp>

namespace turnbox::vhost {
namespace {

using sys::ErrorKind;

struct Area {
  uint64_t uva;
  uint64_t size;
  uint64_t alignment;
};

bool overlap(const Area& a, const Area& b) {
  return a.uva < b.uva + b.size && b.uva < a.uva + a.size;
}

// An eventfd has no file type; other anonymous files (a timer, an epoll) are told apart by what a read gives.
// A pipe may be read but is never written: one whose reader left would raise SIGPIPE.
sys::Status make_usable(int fd, bool may_be_pipe) {
  struct stat st;
  if (::fstat(fd, &st) < 0) return sys::fail_errno("cannot stat a passed descriptor");
  if ((st.st_mode & S_IFMT) != 0 && !(may_be_pipe && S_ISFIFO(st.st_mode))) {
    return sys::fail(ErrorKind::protocol, "the descriptor is not an eventfd");
  }
  return sys::set_nonblocking(fd);
}

}  // namespace

Ring::Ring(boost::asio::io_context& io, Device& device, unsigned index, Counters& counters,
           Vring::OnFault on_fault)
    : io_(io), device_(device), index_(index), vring_(counters, std::move(on_fault)) {
  vring_.set_patience(device.patience(index));
}

sys::Status Ring::set_size(uint32_t size) {
  if (running()) return sys::fail(ErrorKind::protocol, "the ring is running");
  // The 32-bit value is judged, before anything narrows it.
  if (!std::has_single_bit(size) || size > device_.max_queue_size()) {
    return sys::fail(ErrorKind::protocol, "a ring of " + std::to_string(size) +
                                              " entries is not a power of two up to " +
                                              std::to_string(device_.max_queue_size()));
  }
  size_ = size;
  return {};
}

sys::Status Ring::set_address(const RingAddress& address, const Memory& memory) {
  if (running()) return sys::fail(ErrorKind::protocol, "the ring is running");
  if (address.flags != 0) return sys::fail(ErrorKind::protocol, "logging of a ring is not offered");
  const auto before = std::exchange(address_, address);
  if (size_ == 0 || memory.empty()) return {};  // judged at the start
  auto layout = translate(memory);
  if (layout) return {};
  address_ = before;
  return tl::make_unexpected(std::move(layout).error());
}

sys::Result<VringLayout> Ring::translate(const Memory& memory) const {
  const uint64_t n = size_;
  const Area areas[] = {
      {address_->desc, 16 * n, 16}, {address_->avail, 6 + 2 * n, 2}, {address_->used, 6 + 8 * n, 4}};
  std::byte* at[3];
  for (size_t i = 0; i < 3; ++i) {
    at[i] = memory.at_uva(areas[i].uva, areas[i].size);
    if (at[i] == nullptr)
      return sys::fail(ErrorKind::protocol, "a ring's area is not inside one memory region");
    // Both must hold: a region may start at an odd address of its own.
    if (areas[i].uva % areas[i].alignment != 0 ||
        reinterpret_cast<uintptr_t>(at[i]) % areas[i].alignment != 0) {
      return sys::fail(ErrorKind::protocol, "a ring's area is not aligned");
    }
    for (size_t k = 0; k < i; ++k) {
      if (overlap(areas[i], areas[k])) return sys::fail(ErrorKind::protocol, "a ring's areas overlap");
    }
  }
  return VringLayout{at[0], at[1], at[2], static_cast<uint16_t>(n)};
}

sys::Status Ring::set_base(uint32_t next_avail) {
  if (running()) return sys::fail(ErrorKind::protocol, "the ring is running");
  if (next_avail > 0xffff) return sys::fail(ErrorKind::protocol, "a ring index has more than 16 bits");
  vring_.set_base(static_cast<uint16_t>(next_avail));
  return {};
}

sys::Status Ring::set_kick(sys::Fd fd) {
  if (!fd) return sys::fail(ErrorKind::protocol, "a ring without a kick descriptor would have to be polled");
  TRY(make_usable(fd.get(), true));
  boost::asio::posix::stream_descriptor kick(io_);
  boost::system::error_code failed;
  kick.assign(fd.get(), failed);
  if (failed) return sys::fail(ErrorKind::io, "cannot wait for a kick descriptor: " + failed.message());
  (void)fd.release();
  kick_ = std::move(kick);
  ++waits_;
  if (running()) wait_for_kick();
  return {};
}

sys::Status Ring::set_call(sys::Fd fd) {
  if (fd) TRY(make_usable(fd.get(), false));
  vring_.set_call(std::move(fd));
  // What was used while no descriptor was there has notified nobody.
  if (running()) vring_.notify();
  return {};
}

sys::Status Ring::set_err(sys::Fd fd) {
  if (fd) TRY(make_usable(fd.get(), false));
  vring_.set_err(std::move(fd));
  return {};
}

sys::Status Ring::start_if_ready(const Memory& memory, uint64_t features) {
  const bool enabled = enabled_ || (features & kFeatureProtocol) == 0;
  if (running() || vring_.broken() || !enabled || !kick_ || !address_ || size_ == 0 || memory.empty() ||
      features == 0) {
    return {};
  }
  if ((features & kFeatureVersion1) == 0)
    return sys::fail(ErrorKind::protocol, "VERSION_1 was not negotiated");
  TRY_ASSIGN(const VringLayout layout, translate(memory));
  vring_.start(memory, layout, features);
  device_.started(index_, vring_);
  wait_for_kick();
  serve_soon();  // entries may stand there whose kick went to an earlier run
  return {};
}

void Ring::pause() {
  if (!running()) return;
  device_.stopped(index_);
  vring_.flush();
  vring_.stop();
  ++waits_;
  if (kick_) kick_->cancel();
}

uint16_t Ring::end() {
  pause();
  kick_.reset();
  vring_.set_call({});
  return vring_.next_avail();
}

void Ring::reset() {
  end();
  size_ = 0;
  address_.reset();
  enabled_ = false;
  vring_.set_base(0);
}

void Ring::report_if_unmapped(const Memory& memory) {
  if (!vring_.broken() && !translate(memory))
    vring_.report("its areas lay in a memory region that was removed");
}

void Ring::wait_for_kick() {
  const uint64_t wait = ++waits_;
  kick_->async_wait(boost::asio::posix::stream_descriptor::wait_read,
                    [weak = weak_from_this(), wait](const boost::system::error_code& failed) {
                      const auto self = weak.lock();
                      if (!self || self->waits_ != wait) return;
                      if (failed) return self->vring_.fault("the kick descriptor cannot be waited for");
                      self->kicked();
                    });
}

void Ring::kicked() {
  std::byte drain[4096];  // an eventfd gives 8 bytes, a pipe many kicks at once
  const ssize_t n = ::read(kick_->native_handle(), drain, sizeof drain);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
    vring_.fault("the kick descriptor ended");
    return;
  }
  if (n > 0 && !round_waiting_) serve();
  // A broken ring listens no more, so that no kick can keep the loop busy.
  if (running() && !vring_.broken()) wait_for_kick();
}

void Ring::serve() {
  vring_.begin_round();
  device_.serve(index_, vring_);
  if (vring_.end_round()) serve_soon();
}

void Ring::serve_soon() {
  if (round_waiting_) return;
  round_waiting_ = true;
  boost::asio::post(io_, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->round_waiting_ = false;
    if (self->running() && !self->vring_.broken()) self->serve();
  });
}

}  // namespace turnbox::vhost
