#include "vmm/vhost/messages.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace turnbox::vhost {
namespace {

using sys::ErrorKind;

enum class Size : uint8_t { exact, mem_table, config };
enum class Fds : uint8_t { none, mem_table, vring, one, one_ignored };

struct Shape {
  Request request;
  const char* name;
  Size rule;
  uint32_t size;
  Fds fds;
};

constexpr Shape kShapes[] = {
    {Request::get_features, "GET_FEATURES", Size::exact, 0, Fds::none},
    {Request::set_features, "SET_FEATURES", Size::exact, 8, Fds::none},
    {Request::set_owner, "SET_OWNER", Size::exact, 0, Fds::none},
    {Request::reset_owner, "RESET_OWNER", Size::exact, 0, Fds::none},
    {Request::set_mem_table, "SET_MEM_TABLE", Size::mem_table, 0, Fds::mem_table},
    {Request::set_vring_num, "SET_VRING_NUM", Size::exact, sizeof(RingState), Fds::none},
    {Request::set_vring_addr, "SET_VRING_ADDR", Size::exact, sizeof(RingAddress), Fds::none},
    {Request::set_vring_base, "SET_VRING_BASE", Size::exact, sizeof(RingState), Fds::none},
    {Request::get_vring_base, "GET_VRING_BASE", Size::exact, sizeof(RingState), Fds::none},
    {Request::set_vring_kick, "SET_VRING_KICK", Size::exact, 8, Fds::vring},
    {Request::set_vring_call, "SET_VRING_CALL", Size::exact, 8, Fds::vring},
    {Request::set_vring_err, "SET_VRING_ERR", Size::exact, 8, Fds::vring},
    {Request::get_protocol_features, "GET_PROTOCOL_FEATURES", Size::exact, 0, Fds::none},
    {Request::set_protocol_features, "SET_PROTOCOL_FEATURES", Size::exact, 8, Fds::none},
    {Request::get_queue_num, "GET_QUEUE_NUM", Size::exact, 0, Fds::none},
    {Request::set_vring_enable, "SET_VRING_ENABLE", Size::exact, sizeof(RingState), Fds::none},
    {Request::get_config, "GET_CONFIG", Size::config, 0, Fds::none},
    {Request::set_config, "SET_CONFIG", Size::config, 0, Fds::none},
    {Request::reset_device, "RESET_DEVICE", Size::exact, 0, Fds::none},
    {Request::get_max_mem_slots, "GET_MAX_MEM_SLOTS", Size::exact, 0, Fds::none},
    {Request::add_mem_reg, "ADD_MEM_REG", Size::exact, sizeof(OneRegion), Fds::one},
    {Request::rem_mem_reg, "REM_MEM_REG", Size::exact, sizeof(OneRegion), Fds::one_ignored},
};

const Shape* shape_of(uint32_t request) {
  const auto* found = std::find_if(std::begin(kShapes), std::end(kShapes), [&](const Shape& shape) {
    return static_cast<uint32_t>(shape.request) == request;
  });
  return found == std::end(kShapes) ? nullptr : found;
}

bool size_is_right(Size rule, uint32_t exact, sys::ByteSpan payload) {
  switch (rule) {
    case Size::exact:
      return payload.size() == exact;
    case Size::mem_table: {
      if (payload.size() < 8) return false;
      const auto regions = sys::load_le<uint32_t>(payload.data());
      return regions >= 1 && regions <= kMaxRegions && payload.size() == 8 + regions * sizeof(Region);
    }
    case Size::config: {
      if (payload.size() < sizeof(ConfigHead)) return false;
      const auto head = sys::load_le<ConfigHead>(payload.data());
      return head.size >= 1 && head.size <= kMaxConfig && payload.size() == sizeof(ConfigHead) + head.size;
    }
  }
  return false;
}

// Only for payloads of the right size.
size_t fds_due(Fds rule, sys::ByteSpan payload, size_t came) {
  switch (rule) {
    case Fds::none:
      return 0;
    case Fds::mem_table:
      return sys::load_le<uint32_t>(payload.data());
    case Fds::vring:
      return (sys::load_le<uint64_t>(payload.data()) & kNoFd) != 0 ? 0 : 1;
    case Fds::one:
      return 1;
    case Fds::one_ignored:  // some front ends send the region's descriptor along; it is closed
      return std::min<size_t>(came, 1);
  }
  return 0;
}

}  // namespace

sys::Result<Header> parse_header(std::span<const std::byte, kHeaderSize> bytes) {
  const auto header = sys::load_le<Header>(bytes.data());
  // A front end's message is version 1, not a reply, and every other bit is reserved.
  if ((header.flags & ~kFlagNeedReply) != kFlagVersion) {
    return sys::fail(ErrorKind::protocol,
                     "flags " + std::to_string(header.flags) + " of a message are not version 1");
  }
  if (header.size > kMaxPayload) {
    return sys::fail(ErrorKind::protocol,
                     "a payload of " + std::to_string(header.size) + " bytes is over 4 KiB");
  }
  return header;
}

sys::Status check_shape(const Header& header, sys::ByteSpan payload, size_t fds) {
  const Shape* shape = shape_of(header.request);
  if (shape == nullptr) {
    return sys::fail(ErrorKind::protocol, "request " + std::to_string(header.request) + " is not offered");
  }
  if (!size_is_right(shape->rule, shape->size, payload)) {
    return sys::fail(ErrorKind::protocol,
                     "its payload of " + std::to_string(payload.size()) + " bytes is wrong");
  }
  const size_t due = fds_due(shape->fds, payload, fds);
  if (fds != due) {
    return sys::fail(ErrorKind::protocol,
                     std::to_string(fds) + " descriptors came with it instead of " + std::to_string(due));
  }
  return {};
}

const char* name_of(Request request) {
  const Shape* shape = shape_of(static_cast<uint32_t>(request));
  return shape != nullptr ? shape->name : "an unknown request";
}

}  // namespace turnbox::vhost
