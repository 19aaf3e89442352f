#include "tests/bench/wire_port.h"

#include <algorithm>
#include <atomic>
#include <chrono>

namespace turnbox::bench {
namespace {

constexpr size_t kTable = kMaxPayload / kPage + 4;  // descriptors of the largest message
constexpr size_t kIdx = 2, kEntries = 4;            // in the available and used areas
constexpr size_t kReplyFixed = 2048;                // where a reply stands behind its request in their page
constexpr std::chrono::microseconds kLook{100};
constexpr std::chrono::seconds kGiveUp{20};

template <typename T>
std::atomic_ref<T> cell(std::byte* at) {
  return std::atomic_ref<T>(*reinterpret_cast<T*>(at));
}

// Calls part(offset in its buffer, size, buffer) for every descriptor of a message: head, arguments, pages
// in; head, fixed part, pages out.
enum class Buffer { request, reply, pages };
template <typename Part>
void each_part(const Shape& shape, const Part& part) {
  const auto pages = [&](bool writable) {
    for (size_t at = 0; at < shape.payload; at += kPage)
      part(Buffer::pages, at, std::min(kPage, shape.payload - at), writable);
  };
  part(Buffer::request, 0, sizeof(fuse_in_header), false);
  if (shape.request > sizeof(fuse_in_header))
    part(Buffer::request, sizeof(fuse_in_header), shape.request - sizeof(fuse_in_header), false);
  if (shape.way == Shape::Way::to_server) pages(false);
  if (shape.reply == 0) return;
  part(Buffer::reply, 0, sizeof(fuse_out_header), true);
  if (shape.reply > sizeof(fuse_out_header))
    part(Buffer::reply, sizeof(fuse_out_header), shape.reply - sizeof(fuse_out_header), true);
  if (shape.way == Shape::Way::from_server) pages(true);
}

}  // namespace

RingPort::RingPort(support::FakeFrontEnd& front_end, unsigned slots) : ring_(front_end.ring(1)) {
  support::GuestMemory& memory = front_end.memory();
  for (unsigned i = 0; i < slots; ++i) {
    Wiring wiring{};
    const auto place = [&](size_t size, uint64_t& gpa) {
      gpa = memory.take(size);
      return memory.at(gpa, size).data();
    };
    wiring.table = reinterpret_cast<support::Desc*>(place(kTable * sizeof(support::Desc), wiring.table_gpa));
    std::byte* page = place(kPage, wiring.request_gpa);
    wiring.reply_gpa = wiring.request_gpa + kReplyFixed;
    slots_.push_back({page, page + kReplyFixed, place(kMaxPayload, wiring.pages_gpa)});
    wiring_.push_back(wiring);
  }
  const size_t size = ring_.size();
  desc_ = memory.at(ring_.desc(), 16 * size).data();
  avail_ = memory.at(ring_.avail(), 6 + 2 * size).data();
  used_ = memory.at(ring_.used(), 6 + 8 * size).data();
}

void RingPort::submit(unsigned slot, const Shape& shape) {
  const Wiring& wiring = wiring_[slot];
  uint16_t count = 0;
  each_part(shape, [&](Buffer buffer, size_t at, size_t size, bool writable) {
    const uint64_t base = buffer == Buffer::request ? wiring.request_gpa
                          : buffer == Buffer::reply ? wiring.reply_gpa
                                                    : wiring.pages_gpa;
    const auto flags = static_cast<uint16_t>(support::kNext | (writable ? support::kWrite : 0));
    wiring.table[count] = {base + at, static_cast<uint32_t>(size), flags, static_cast<uint16_t>(count + 1)};
    ++count;
  });
  wiring.table[count - 1].flags &= static_cast<uint16_t>(~support::kNext);
  reinterpret_cast<support::Desc*>(desc_)[slot] = {
      wiring.table_gpa, static_cast<uint32_t>(count * sizeof(support::Desc)), support::kIndirect, 0};
  const size_t size = ring_.size();
  cell<uint16_t>(avail_ + kEntries + 2 * (avail_idx_ & (size - 1)))
      .store(static_cast<uint16_t>(slot), std::memory_order_relaxed);
  const uint16_t before = avail_idx_++;
  cell<uint16_t>(avail_ + kIdx).store(avail_idx_, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const auto event = cell<uint16_t>(used_ + kEntries + 8 * size).load(std::memory_order_relaxed);
  if (event == before) ring_.kick();
}

bool RingPort::take(unsigned& slot) {
  if (cell<uint16_t>(used_ + kIdx).load(std::memory_order_acquire) == used_idx_) return false;
  slot = cell<uint32_t>(used_ + kEntries + 8 * (used_idx_ & (ring_.size() - 1U)))
             .load(std::memory_order_relaxed);
  ++used_idx_;
  return true;
}

unsigned RingPort::wait() {
  using Clock = std::chrono::steady_clock;
  unsigned slot = 0;
  if (take(slot)) return slot;
  if (looks_first_) {
    const auto until = Clock::now() + kLook;
    do {
      for (int i = 0; i < 64; ++i) {
        if (take(slot)) return slot;
        __builtin_ia32_pause();
      }
    } while (Clock::now() < until);
  }
  for (const auto end = Clock::now() + kGiveUp; Clock::now() < end;) {
    cell<uint16_t>(avail_ + kEntries + size_t{2} * ring_.size()).store(used_idx_, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (take(slot)) return slot;
    (void)support::signalled(ring_.call_fd(), support::Deadline(1000));
    if (take(slot)) return slot;
  }
  support::give_up("the daemon did not answer within 20 seconds");
}

// The queue a device sees while it serves one chain.
class DirectPort::OneChain final : public vhost::Queue {
 public:
  explicit OneChain(vhost::Chain chain) : chain_(std::move(chain)) {}
  std::optional<vhost::Chain> pop() override { return std::exchange(chain_, std::nullopt); }
  void push(vhost::Chain chain, uint32_t) override { parts_ = std::move(chain).take_parts(); }
  bool round_over() const override { return false; }
  void flush() override {}
  bool broken() const override { return false; }
  void fault(const char* rule) override { support::give_up(rule); }
  vhost::Chain::Parts take_parts() { return std::move(parts_); }

 private:
  std::optional<vhost::Chain> chain_;
  vhost::Chain::Parts parts_;
};

DirectPort::DirectPort(virtiofs::Device& device, unsigned slots)
    : device_(device), memory_(slots * (kPage + kMaxPayload)) {
  for (unsigned i = 0; i < slots; ++i) {
    std::byte* at = memory_.data() + i * (kPage + kMaxPayload);
    slots_.push_back({at, at + kReplyFixed, at + kPage});
  }
}

void DirectPort::submit(unsigned slot, const Shape& shape) {
  const Slot& at = slots_[slot];
  parts_.clear();
  size_t readable = 0;
  each_part(shape, [&](Buffer buffer, size_t offset, size_t size, bool writable) {
    std::byte* base = buffer == Buffer::request ? at.request : buffer == Buffer::reply ? at.reply : at.pages;
    parts_.emplace_back(base + offset, size);
    if (!writable) ++readable;
  });
  OneChain queue(vhost::Chain(static_cast<uint16_t>(slot), std::move(parts_), readable));
  device_.serve(1, queue);
  parts_ = queue.take_parts();
  done_.push_back(slot);
}

unsigned DirectPort::wait() {
  const unsigned slot = done_.front();
  done_.pop_front();
  return slot;
}

}  // namespace turnbox::bench
