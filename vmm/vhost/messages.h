// The vhost-user wire: header, requests and payloads, and the checks that need nothing but the message
// itself.
//
// Source: QEMU's «Vhost-user Protocol» (docs/interop/vhost-user.rst). Little-endian, as every machine we run
// on. What needs state (regions, rings, features) is checked in backend.cpp.
#pragma once

#include <cstdint>
#include <span>

#include "vmm/sys/bytes.h"
#include "vmm/sys/result.h"

namespace turnbox::vhost {

enum class Request : uint32_t {
  get_features = 1,
  set_features = 2,
  set_owner = 3,
  reset_owner = 4,
  set_mem_table = 5,
  set_vring_num = 8,
  set_vring_addr = 9,
  set_vring_base = 10,
  get_vring_base = 11,
  set_vring_kick = 12,
  set_vring_call = 13,
  set_vring_err = 14,
  get_protocol_features = 15,
  set_protocol_features = 16,
  get_queue_num = 17,
  set_vring_enable = 18,
  get_config = 24,
  set_config = 25,
  reset_device = 34,
  get_max_mem_slots = 36,
  add_mem_reg = 37,
  rem_mem_reg = 38,
};

inline constexpr uint64_t kFeatureIndirect = 1ULL << 28;
inline constexpr uint64_t kFeatureEventIdx = 1ULL << 29;
inline constexpr uint64_t kFeatureProtocol = 1ULL << 30;
inline constexpr uint64_t kFeatureVersion1 = 1ULL << 32;

inline constexpr uint64_t kProtocolMq = 1ULL << 0;
inline constexpr uint64_t kProtocolReplyAck = 1ULL << 3;
inline constexpr uint64_t kProtocolConfig = 1ULL << 9;
inline constexpr uint64_t kProtocolResetDevice = 1ULL << 13;
inline constexpr uint64_t kProtocolMemSlots = 1ULL << 15;  // CONFIGURE_MEM_SLOTS

inline constexpr uint32_t kFlagVersion = 1;
inline constexpr uint32_t kFlagReply = 1U << 2;
inline constexpr uint32_t kFlagNeedReply = 1U << 3;

inline constexpr size_t kHeaderSize = 12;
inline constexpr uint32_t kMaxPayload = 4096;
inline constexpr uint32_t kMaxRegions = 8;    // of one SET_MEM_TABLE
inline constexpr uint32_t kMaxMemSlots = 32;  // regions that ADD_MEM_REG may bring together
inline constexpr uint32_t kMaxConfig = 256;
inline constexpr uint64_t kNoFd = 1ULL << 8;  // in the u64 of SET_VRING_KICK, CALL and ERR

struct Header {
  uint32_t request;
  uint32_t flags;
  uint32_t size;
};

struct RingState {  // SET_VRING_NUM, BASE, ENABLE; GET_VRING_BASE
  uint32_t index;
  uint32_t value;
};

struct RingAddress {  // SET_VRING_ADDR; addresses are the front end's virtual ones
  uint32_t index;
  uint32_t flags;
  uint64_t desc;
  uint64_t used;
  uint64_t avail;
  uint64_t log;
};

struct Region {
  uint64_t gpa;
  uint64_t size;
  uint64_t uva;
  uint64_t offset;  // in the descriptor
};

struct OneRegion {  // ADD_MEM_REG, REM_MEM_REG
  uint64_t padding;
  Region region;
};

struct ConfigHead {  // followed by `size` bytes
  uint32_t offset;
  uint32_t size;
  uint32_t flags;
};

static_assert(sizeof(Header) == kHeaderSize && sizeof(RingState) == 8 && sizeof(RingAddress) == 40);
static_assert(sizeof(Region) == 32 && sizeof(OneRegion) == 40 && sizeof(ConfigHead) == 12);

// The framing of the stream. An error means that the next message cannot be found: the connection ends.
sys::Result<Header> parse_header(std::span<const std::byte, kHeaderSize> bytes);

// Request known, payload size exact, number of descriptors right. The payload is complete.
sys::Status check_shape(const Header& header, sys::ByteSpan payload, size_t fds);

const char* name_of(Request request);

}  // namespace turnbox::vhost
