#include "vmm/vhost/vring.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

namespace turnbox::vhost {
namespace {

constexpr uint16_t kNext = 1;
constexpr uint16_t kWrite = 2;
constexpr uint16_t kIndirect = 4;
constexpr uint16_t kNoInterrupt = 1;  // avail.flags
constexpr uint16_t kNoNotify = 1;     // used.flags
constexpr size_t kDescSize = 16;
constexpr size_t kSpareVectors = 64;
constexpr uint32_t kMaxUnsignalled = 0x8000;  // beyond it, the 16-bit comparison could be fooled

// Offsets in the avail and used areas; both begin with flags and idx.
constexpr size_t kIdx = 2;
constexpr size_t kEntries = 4;

template <typename T>
T load(const std::byte* at, std::memory_order order = std::memory_order_relaxed) {
  return std::atomic_ref<T>(*reinterpret_cast<T*>(const_cast<std::byte*>(at))).load(order);
}

template <typename T>
void store(std::byte* at, T value, std::memory_order order = std::memory_order_relaxed) {
  std::atomic_ref<T>(*reinterpret_cast<T*>(at)).store(value, order);
}

// Full eventfds and closed pipes are the front end's own loss.
void signal(const sys::Fd& fd) {
  const uint64_t one = 1;
  if (fd) (void)!::write(fd.get(), &one, sizeof one);
}

}  // namespace

void Vring::set_base(uint16_t next_avail) {
  next_avail_ = next_avail;
  used_known_ = false;
  fault_ = nullptr;
}

void Vring::start(const Memory& memory, const VringLayout& layout, uint64_t features) {
  TURNBOX_ASSERT(!running() && std::has_single_bit(layout.size) && layout.size <= 0x8000);
  memory_ = &memory;
  ring_ = layout;
  indirect_ = (features & kFeatureIndirect) != 0;
  event_idx_ = (features & kFeatureEventIdx) != 0;
  ++run_;
  seen_avail_ = next_avail_;
  if (!used_known_) used_idx_ = load<uint16_t>(ring_.used + kIdx);
  used_known_ = true;
  unsignalled_ = 0;
  first_flush_ = true;
  in_flight_.assign(ring_.size, false);
  spare_kicks();
}

void Vring::stop() {
  memory_ = nullptr;
  ring_ = {};
  in_round_ = false;
}

void Vring::begin_round() {
  in_round_ = true;
  round_chains_ = 0;
  round_bytes_ = 0;
  watch_.begin_round();
}

bool Vring::end_round() {
  const bool over = round_over();
  in_round_ = false;
  flush();
  return over && running() && !broken();
}

bool Vring::round_over() const {
  return in_round_ && (round_chains_ >= kRoundChains || round_bytes_ >= kRoundBytes || watch_.over());
}

// True when there is an entry to take. An index that ran ahead of the ring is a breach.
bool Vring::load_avail() {
  if (seen_avail_ != next_avail_) return true;
  seen_avail_ = load<uint16_t>(ring_.avail + kIdx, std::memory_order_acquire);
  if (static_cast<uint16_t>(seen_avail_ - next_avail_) > ring_.size) {
    fault("the available index ran ahead by more than the ring's size");
    return false;
  }
  return seen_avail_ != next_avail_;
}

// A guest that waits for what was just done sends its next request soon: to see it come costs neither side a
// wake-up. The guest is told of what is done first, else it would wait for us.
bool Vring::watch_avail() {
  if (!in_round_ || broken() || !watch_.worth_it()) return false;
  flush();
  return watch_.until([this] { return load_avail() || broken(); }) && !broken();
}

// Asks for a kick at the next entry, then looks again: the guest may have added one just before it could see
// that.
bool Vring::ask_for_kick() {
  if (event_idx_) {
    store<uint16_t>(ring_.used + kEntries + size_t{8} * ring_.size, next_avail_);
  } else {
    store<uint16_t>(ring_.used, 0);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return load_avail();
}

// With EVENT_IDX the old event index does this by itself: the guest has passed it.
void Vring::spare_kicks() {
  store<uint16_t>(ring_.used, event_idx_ ? 0 : kNoNotify);
}

std::optional<uint16_t> Vring::take_head() {
  if (!load_avail() && !watch_avail()) {
    if (broken() || !ask_for_kick()) return std::nullopt;
    spare_kicks();
  }
  const size_t slot = next_avail_ & (ring_.size - 1);
  const auto head = load<uint16_t>(ring_.avail + kEntries + 2 * slot);
  ++next_avail_;
  return head;
}

Vring::Desc Vring::fetch(uint16_t index) const {
  const std::byte* at = ring_.desc + kDescSize * index;
  const auto addr = load<uint64_t>(at);
  const auto rest = load<uint64_t>(at + 8);
  return {addr, static_cast<uint32_t>(rest), static_cast<uint16_t>(rest >> 32),
          static_cast<uint16_t>(rest >> 48)};
}

std::optional<Chain> Vring::pop() {
  if (!running() || broken()) return std::nullopt;
  const auto head = take_head();
  if (!head) return std::nullopt;
  const char* breach = nullptr;
  Walk at;
  parts_.clear();
  if (*head >= ring_.size) {
    breach = "a head is beyond the ring";
  } else if (in_flight_[*head]) {
    breach = "a head was published again while in flight";
  } else {
    breach = walk(*head, at);
  }
  if (breach != nullptr) {
    fault(breach);
    return std::nullopt;
  }
  in_flight_[*head] = true;
  ++counters_.chains;
  ++round_chains_;
  round_bytes_ += at.readable_bytes + at.writable_bytes;

  Chain chain(*head, std::move(parts_), at.readable_parts, run_);
  if (!spare_.empty()) {
    parts_ = std::move(spare_.back());
    spare_.pop_back();
  }
  return chain;
}

// nullptr: the chain keeps every rule and its parts are in parts_. Else the rule it broke.
const char* Vring::walk(uint16_t head, Walk& at) {
  uint16_t index = head;
  for (unsigned hops = 0; hops < ring_.size; ++hops) {
    const Desc desc = fetch(index);
    if ((desc.flags & ~(kNext | kWrite | kIndirect)) != 0) return "a descriptor has unknown flags";
    const char* breach = (desc.flags & kIndirect) != 0 ? walk_indirect(desc, at) : add(desc, at);
    if (breach != nullptr) return breach;
    if ((desc.flags & kNext) == 0) return parts_.empty() ? "a chain is empty" : nullptr;
    if (desc.next >= ring_.size) return "a next index is beyond the ring";
    index = desc.next;
  }
  return "a chain is longer than the ring";
}

// The table's own write flag means nothing (virtio 1.2, 2.7.5.3.2).
const char* Vring::walk_indirect(const Desc& table, Walk& at) {
  if (!indirect_) return "an indirect descriptor was not negotiated";
  if ((table.flags & kNext) != 0) return "an indirect descriptor has a next";
  if (table.len == 0 || table.len % kDescSize != 0) return "an indirect table's length is no multiple of 16";
  const size_t entries = table.len / kDescSize;
  if (entries > ring_.size) return "an indirect table is longer than the ring";

  table_parts_.clear();
  if (!memory_->spans(table.addr, table.len, table_parts_))
    return "an indirect table is outside guest memory";
  table_.resize(table.len);
  ChainReader(table_parts_).read(table_);

  size_t index = 0;
  for (size_t hops = 0; hops < entries; ++hops) {
    const auto desc = sys::load_le<Desc>(table_.data() + kDescSize * index);
    if ((desc.flags & kIndirect) != 0) return "an indirect table is nested";
    if ((desc.flags & ~(kNext | kWrite)) != 0) return "a descriptor has unknown flags";
    if (const char* breach = add(desc, at)) return breach;
    if ((desc.flags & kNext) == 0) return nullptr;
    if (desc.next >= entries) return "a next index is beyond the indirect table";
    index = desc.next;
  }
  return "a chain is longer than its indirect table";
}

const char* Vring::add(const Desc& desc, Walk& at) {
  static_assert(sizeof(Desc) == kDescSize);
  const bool writable = (desc.flags & kWrite) != 0;
  if (desc.len == 0) return nullptr;
  if (!writable && at.writable_bytes > 0) return "a readable descriptor follows a writable one";
  uint64_t& total = writable ? at.writable_bytes : at.readable_bytes;
  total += desc.len;
  if (at.readable_bytes > kMaxReadableBytes) return "a chain has more to read than any request";
  if (at.readable_bytes + at.writable_bytes > UINT32_MAX) return "a chain is longer than 4 GiB";
  if (!memory_->spans(desc.addr, desc.len, parts_)) return "a descriptor is outside guest memory";
  if (!writable) at.readable_parts = parts_.size();
  return nullptr;
}

void Vring::push(Chain chain, uint32_t written) {
  TURNBOX_ASSERT(written <= chain.writable_bytes());
  const uint16_t head = chain.head();
  const bool stale = chain.run() != run_;
  Chain::Parts parts = std::move(chain).take_parts();
  if (spare_.size() < kSpareVectors) spare_.push_back(std::move(parts));
  if (stale || !running() || broken()) return;
  TURNBOX_ASSERT(in_flight_[head]);
  in_flight_[head] = false;

  std::byte* entry = ring_.used + kEntries + size_t{8} * (used_idx_ & (ring_.size - 1));
  store<uint32_t>(entry, head);
  store<uint32_t>(entry + 4, written);
  ++used_idx_;
  store<uint16_t>(ring_.used + kIdx, used_idx_, std::memory_order_release);
  ++unsignalled_;
}

void Vring::flush() {
  if (!running() || broken() || unsignalled_ == 0) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  bool wanted;
  if (event_idx_) {
    const auto event = load<uint16_t>(ring_.avail + kEntries + size_t{2} * ring_.size);
    // Was the event index among the `unsignalled_` last ones? All in 16 bits, which wrap.
    const auto behind = static_cast<uint16_t>(used_idx_ - event - 1);
    // The first time, the guest's event may stem from an earlier run.
    wanted = first_flush_ || unsignalled_ >= kMaxUnsignalled || behind < unsignalled_;
  } else {
    wanted = (load<uint16_t>(ring_.avail) & kNoInterrupt) == 0;
  }
  unsignalled_ = 0;
  first_flush_ = false;
  if (wanted) notify();
}

void Vring::notify() {
  signal(call_);
}

void Vring::fault(const char* rule) {
  if (broken()) return;
  fault_ = rule;
  report(rule);
}

void Vring::report(const char* what) {
  ++counters_.queue_faults;
  signal(err_);
  if (on_fault_) on_fault_(what);
}

}  // namespace turnbox::vhost
