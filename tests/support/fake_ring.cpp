#include "tests/support/fake_ring.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>

namespace turnbox::support {
namespace {

using Clock = std::chrono::steady_clock;

sys::Fd make_eventfd() {
  sys::Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) give_up("cannot create an eventfd");
  return fd;
}

template <typename T>
std::atomic_ref<T> shared(std::byte* at) {
  return std::atomic_ref<T>(*reinterpret_cast<T*>(at));
}

}  // namespace

bool signalled(int eventfd, Deadline within) {
  pollfd wait{eventfd, POLLIN, 0};
  if (::poll(&wait, 1, static_cast<int>(within.count())) != 1) return false;
  uint64_t count;
  return ::read(eventfd, &count, sizeof count) == sizeof count;
}

FakeRing::FakeRing(GuestMemory& memory, uint16_t size, bool event_idx)
    : memory_(memory),
      size_(size),
      event_idx_(event_idx),
      kick_(make_eventfd()),
      call_(make_eventfd()),
      err_(make_eventfd()),
      owned_(size) {
  // Padded, so that raw cells behind an area can be looked at through 8-byte windows.
  desc_ = memory_.take(size_t{16} * size);
  avail_ = memory_.take(6 + size_t{2} * size + 16);
  used_ = memory_.take(6 + size_t{8} * size + 16);
  for (uint16_t i = 0; i < size; ++i) free_.push_back(static_cast<uint16_t>(size - 1 - i));
}

uint16_t FakeRing::take_desc() {
  if (free_.empty()) give_up("the fake ring has no free descriptor");
  const uint16_t index = free_.back();
  free_.pop_back();
  return index;
}

uint16_t FakeRing::add(std::span<const Part> parts) {
  Owned owned;
  for (size_t i = 0; i < parts.size(); ++i) owned.descs.push_back(take_desc());
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    const int flags = (parts[i].writable ? kWrite : 0) | (last ? 0 : kNext);
    write_desc(owned.descs[i], {parts[i].gpa, parts[i].len, static_cast<uint16_t>(flags),
                                last ? uint16_t{0} : owned.descs[i + 1]});
  }
  const uint16_t head = owned.descs.front();
  owned_[head] = std::move(owned);
  publish(head);
  return head;
}

uint16_t FakeRing::add_indirect(std::span<const Part> parts) {
  Owned owned;
  owned.descs.push_back(take_desc());
  owned.table_size = parts.size() * sizeof(Desc);
  owned.table = memory_.take(owned.table_size);
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    const int flags = (parts[i].writable ? kWrite : 0) | (last ? 0 : kNext);
    memory_.store(owned.table + i * sizeof(Desc),
                  Desc{parts[i].gpa, parts[i].len, static_cast<uint16_t>(flags),
                       static_cast<uint16_t>(last ? 0 : i + 1)});
  }
  const uint16_t head = owned.descs.front();
  write_desc(head, {owned.table, static_cast<uint32_t>(owned.table_size), kIndirect, 0});
  owned_[head] = std::move(owned);
  publish(head);
  return head;
}

void FakeRing::write_desc(uint16_t index, const Desc& desc) {
  memory_.store(desc_ + size_t{16} * index, desc);
}

void FakeRing::publish(uint16_t head) {
  memory_.store(avail_ + 4 + size_t{2} * (avail_idx_ & (size_ - 1)), head);
  set_avail_idx(static_cast<uint16_t>(avail_idx_ + 1));
}

void FakeRing::set_avail_idx(uint16_t idx) {
  avail_idx_ = idx;
  shared<uint16_t>(cell(avail_ + 2)).store(idx, std::memory_order_release);
}

uint16_t FakeRing::used_idx() const {
  return shared<uint16_t>(cell(used_ + 2)).load(std::memory_order_acquire);
}

void FakeRing::set_used_event(uint16_t idx) {
  shared<uint16_t>(cell(avail_ + 4 + size_t{2} * size_)).store(idx, std::memory_order_relaxed);
}

uint16_t FakeRing::avail_event() const {
  return shared<uint16_t>(cell(used_ + 4 + size_t{8} * size_)).load(std::memory_order_relaxed);
}

void FakeRing::begin_at(uint16_t idx) {
  set_avail_idx(idx);
  shared<uint16_t>(cell(used_ + 2)).store(idx, std::memory_order_release);
  set_used_event(idx);
  last_used_ = kicked_at_ = idx;
}

bool FakeRing::kick_wanted() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!event_idx_) return (shared<uint16_t>(cell(used_)).load(std::memory_order_relaxed) & 1) == 0;
  return static_cast<uint16_t>(avail_idx_ - avail_event() - 1) <
         static_cast<uint16_t>(avail_idx_ - kicked_at_);
}

void FakeRing::kick() {
  kicked_at_ = avail_idx_;
  const uint64_t one = 1;
  if (::write(kick_.get(), &one, sizeof one) != sizeof one) give_up("cannot kick");
}

void FakeRing::give_back(uint32_t head) {
  if (head >= size_) return;
  Owned owned = std::move(owned_[head]);
  owned_[head] = {};
  for (const uint16_t index : owned.descs) free_.push_back(index);
  if (owned.table != 0) memory_.give(owned.table, owned.table_size);
}

std::optional<Used> FakeRing::take_used() {
  if (used_idx() == last_used_) return std::nullopt;
  const auto used = memory_.load<Used>(used_ + 4 + size_t{8} * (last_used_ & (size_ - 1)));
  ++last_used_;
  give_back(used.head);
  return used;
}

std::optional<Used> FakeRing::wait_used(Deadline within) {
  const auto end = Clock::now() + within;
  for (;;) {
    if (auto used = take_used()) return used;
    set_used_event(last_used_);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (auto used = take_used()) return used;
    const auto left = std::chrono::duration_cast<Deadline>(end - Clock::now());
    if (left.count() <= 0 || !signalled(call_.get(), left)) return take_used();
  }
}

}  // namespace turnbox::support
