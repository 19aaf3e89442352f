#include "vmm/vhost/session.h"

#include <algorithm>

namespace turnbox::vhost {
namespace {

using sys::ErrorKind;

constexpr uint64_t kDeviceFeatures = (1ULL << 24) - 1;
constexpr uint32_t kConfigMigration = 1;  // the one flag that GET_CONFIG and SET_CONFIG know
constexpr uint64_t kRingMask = 0xff;

sys::Bytes u64_reply(uint64_t value) {
  sys::Bytes payload;
  sys::append_le(payload, value);
  return payload;
}

}  // namespace

Session::Session(boost::asio::io_context& io, Device& device, Counters& counters, const OnFault& on_fault)
    : device_(device) {
  for (unsigned i = 0; i < device.queue_count(); ++i) {
    rings_.push_back(std::make_shared<Ring>(io, device, i, counters, [on_fault, i](const char* rule) {
      if (on_fault) on_fault(i, rule);
    }));
  }
}

Session::~Session() {
  stop_rings();
  device_.reset();
}

void Session::stop_rings() {
  for (auto& ring : rings_) ring->pause();
}

uint64_t Session::offered_features() const {
  return kFeatureIndirect | kFeatureEventIdx | kFeatureProtocol | kFeatureVersion1 |
         (device_.features() & kDeviceFeatures);
}

uint64_t Session::offered_protocol() const {
  return kProtocolMq | kProtocolReplyAck | kProtocolResetDevice | kProtocolMemSlots |
         (device_.config().empty() ? 0 : kProtocolConfig);
}

sys::Result<Ring*> Session::ring_at(uint64_t index) {
  if (index < rings_.size()) return rings_[index].get();
  return sys::fail(ErrorKind::protocol, "there is no queue " + std::to_string(index));
}

sys::Result<Session::Reply> Session::handle(Message& message) {
  const auto u64 = [&] { return sys::load_le<uint64_t>(message.payload.data()); };
  const auto state = [&] { return sys::load_le<RingState>(message.payload.data()); };
  const auto one_region = [&] { return sys::load_le<OneRegion>(message.payload.data()).region; };
  const auto done = [](sys::Status status) -> sys::Result<Reply> {
    if (!status) return tl::make_unexpected(std::move(status).error());
    return Reply{};
  };
  const auto request = static_cast<Request>(message.header.request);
  switch (request) {
    case Request::get_features:
      return u64_reply(offered_features());
    case Request::set_features:
      return done(set_features(u64()));
    case Request::get_protocol_features:
      return u64_reply(offered_protocol());
    case Request::set_protocol_features:
      return done(set_protocol(u64()));
    case Request::get_queue_num:
      return u64_reply(rings_.size());
    case Request::set_owner:
      return Reply{};
    case Request::reset_owner:  // deprecated: «disable all rings»
      stop_rings();
      for (auto& ring : rings_) ring->set_enabled(false);
      return Reply{};
    case Request::set_mem_table:
      return done(set_mem_table(message.payload, message.fds));
    case Request::set_vring_addr:
      return done(set_ring_address(sys::load_le<RingAddress>(message.payload.data())));
    case Request::set_vring_num:
    case Request::set_vring_base:
    case Request::set_vring_enable:
      return done(set_ring_state(request, state()));
    case Request::set_vring_kick:
    case Request::set_vring_call:
    case Request::set_vring_err:
      return done(set_ring_fd(request, u64(), std::move(message.fds)));
    case Request::get_vring_base:
      return end_ring(state());
    case Request::get_config:
      return config(message.payload);
    case Request::set_config:
      return done(set_config(message.payload));
    case Request::get_max_mem_slots:
      return mem_slots();
    case Request::add_mem_reg:
      return done(add_region(one_region(), message.fds.front()));
    case Request::rem_mem_reg:
      return done(remove_region(one_region()));
    case Request::reset_device:
      return done(reset_device());
  }
  return sys::fail(ErrorKind::protocol, "the request is not offered");
}

sys::Status Session::start_ready_rings() {
  sys::Status first;
  for (auto& ring : rings_) {
    auto started = ring->start_if_ready(memory_, features_);
    if (!started && first) first = std::move(started);
  }
  return first;
}

sys::Status Session::set_features(uint64_t features) {
  if ((features & ~offered_features()) != 0) {
    return sys::fail(ErrorKind::protocol, "features were acknowledged that are not offered");
  }
  const bool running =
      std::any_of(rings_.begin(), rings_.end(), [](const auto& ring) { return ring->running(); });
  if (running && features != features_)
    return sys::fail(ErrorKind::protocol, "features change under a running ring");
  features_ = features;
  return start_ready_rings();
}

sys::Status Session::set_protocol(uint64_t features) {
  if ((features & ~offered_protocol()) != 0) {
    return sys::fail(ErrorKind::protocol, "protocol features were acknowledged that are not offered");
  }
  protocol_ = features;
  return {};
}

// Under running rings: the device lets go of every chain, the tables are exchanged, the rings are translated
// anew.
sys::Status Session::set_mem_table(sys::ByteSpan payload, std::span<const sys::Fd> fds) {
  std::vector<Region> regions(fds.size());
  for (size_t i = 0; i < regions.size(); ++i)
    regions[i] = sys::load_le<Region>(payload.data() + 8 + i * sizeof(Region));
  TRY_ASSIGN(Memory memory, Memory::map(regions, fds));
  stop_rings();
  memory_ = std::move(memory);
  return start_ready_rings();
}

sys::Status Session::needs(uint64_t protocol_feature, const char* name) const {
  if ((protocol_ & protocol_feature) != 0) return {};
  return sys::fail(ErrorKind::protocol, std::string(name) + " was not negotiated");
}

sys::Result<sys::Bytes> Session::mem_slots() const {
  TRY(needs(kProtocolMemSlots, "CONFIGURE_MEM_SLOTS"));
  return u64_reply(kMaxMemSlots);
}

// No mapped byte moves, so running rings go on; one that waited for this memory starts.
sys::Status Session::add_region(const Region& region, const sys::Fd& fd) {
  TRY(needs(kProtocolMemSlots, "CONFIGURE_MEM_SLOTS"));
  TRY(memory_.add(region, fd));
  (void)start_ready_rings();  // one whose areas are still to come waits for them
  return {};
}

// The device lets go of every chain first. Rings that stood in the region stop with a fault; the others go
// on.
sys::Status Session::remove_region(const Region& region) {
  TRY(needs(kProtocolMemSlots, "CONFIGURE_MEM_SLOTS"));
  if (!memory_.has(region)) return sys::fail(ErrorKind::protocol, "there is no such memory region");
  std::vector<Ring*> ran;
  for (auto& ring : rings_) {
    if (ring->running()) ran.push_back(ring.get());
  }
  stop_rings();
  TRY(memory_.remove(region));
  for (Ring* ring : ran) ring->report_if_unmapped(memory_);
  (void)start_ready_rings();
  return {};
}

// As on a new connection, but for what a front end says once: protocol features, memory, error descriptors.
sys::Status Session::reset_device() {
  TRY(needs(kProtocolResetDevice, "RESET_DEVICE"));
  for (auto& ring : rings_) ring->reset();
  features_ = 0;
  device_.reset();
  return {};
}

sys::Status Session::set_ring_state(Request request, RingState state) {
  TRY_ASSIGN(Ring * ring, ring_at(state.index));
  switch (request) {
    case Request::set_vring_num:
      TRY(ring->set_size(state.value));
      break;
    case Request::set_vring_base:
      TRY(ring->set_base(state.value));
      break;
    default:  // SET_VRING_ENABLE
      if ((features_ & kFeatureProtocol) == 0) {
        return sys::fail(ErrorKind::protocol, "PROTOCOL_FEATURES was not negotiated");
      }
      if (state.value > 1) return sys::fail(ErrorKind::protocol, "enable is neither 0 nor 1");
      ring->set_enabled(state.value == 1);
      if (state.value == 0) ring->pause();
      break;
  }
  return ring->start_if_ready(memory_, features_);
}

sys::Status Session::set_ring_address(const RingAddress& address) {
  TRY_ASSIGN(Ring * ring, ring_at(address.index));
  TRY(ring->set_address(address, memory_));
  return ring->start_if_ready(memory_, features_);
}

sys::Status Session::set_ring_fd(Request request, uint64_t value, std::vector<sys::Fd> fds) {
  if ((value & ~(kRingMask | kNoFd)) != 0) return sys::fail(ErrorKind::protocol, "reserved bits are set");
  TRY_ASSIGN(Ring * ring, ring_at(value & kRingMask));
  sys::Fd fd = fds.empty() ? sys::Fd() : std::move(fds.front());
  if (request == Request::set_vring_call) return ring->set_call(std::move(fd));
  if (request == Request::set_vring_err) return ring->set_err(std::move(fd));
  TRY(ring->set_kick(std::move(fd)));
  return ring->start_if_ready(memory_, features_);
}

sys::Result<sys::Bytes> Session::end_ring(RingState state) {
  TRY_ASSIGN(Ring * ring, ring_at(state.index));
  state.value = ring->end();
  sys::Bytes payload;
  sys::append_le(payload, state);
  return payload;
}

sys::Result<sys::Bytes> Session::config(sys::ByteSpan payload) const {
  TRY(needs(kProtocolConfig, "CONFIG"));
  const auto head = sys::load_le<ConfigHead>(payload.data());
  const auto space = device_.config();
  if ((head.flags & ~kConfigMigration) != 0) return sys::fail(ErrorKind::protocol, "unknown flags");
  if (head.offset > space.size() || head.size > space.size() - head.offset) {
    return sys::fail(ErrorKind::protocol, "it reaches past the configuration space");
  }
  sys::Bytes reply;
  sys::append_le(reply, head);
  sys::append(reply, space.subspan(head.offset, head.size));
  return reply;
}

sys::Status Session::set_config(sys::ByteSpan payload) const {
  TRY(config(payload));
  return sys::fail(ErrorKind::refused, "the configuration space is read-only");
}

}  // namespace turnbox::vhost
