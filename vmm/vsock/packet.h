// The 44-byte header of a virtio-vsock packet (virtio 1.2, section 5.10.6), copied out once and checked by
// whoever uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace turnbox::vsock {

inline constexpr size_t kHeaderSize = 44;
inline constexpr uint32_t kMaxPayload = 64 * 1024;  // what one packet may carry, either way
inline constexpr uint64_t kHostCid = 2;
inline constexpr uint16_t kTypeStream = 1;

// Values of the field `op`. Others exist only in what a guest sends.
enum class Op : uint16_t {
  invalid = 0,
  request = 1,
  response = 2,
  rst = 3,
  shutdown = 4,
  rw = 5,
  credit_update = 6,
  credit_request = 7,
};

// Flags of a shutdown: the sender will not receive, will not send any more.
inline constexpr uint32_t kShutdownReceive = 1;
inline constexpr uint32_t kShutdownSend = 2;
inline constexpr uint32_t kShutdownBoth = kShutdownReceive | kShutdownSend;

struct Header {
  uint64_t src_cid = 0;
  uint64_t dst_cid = 0;
  uint32_t src_port = 0;
  uint32_t dst_port = 0;
  uint32_t len = 0;
  uint16_t type = kTypeStream;
  Op op = Op::invalid;
  uint32_t flags = 0;
  uint32_t buf_alloc = 0;
  uint32_t fwd_cnt = 0;
};

// Every byte pattern decodes; the caller checks the fields.
Header decode_header(std::span<const std::byte, kHeaderSize> bytes);
void encode_header(const Header& header, std::span<std::byte, kHeaderSize> into);

}  // namespace turnbox::vsock
