// How a connection that the guest began reaches the broker: one end of a socket pair beside eight bytes
// (docs/WIRE.md, «Dial messages»).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vmm/sys/fd.h"

namespace turnbox::vsock {

inline constexpr size_t kDialSize = 8;

struct Dial {
  uint32_t port = 0;        // the port on CID 2 that the guest asked for
  uint32_t guest_port = 0;  // the guest's own
};

void encode_dial(const Dial& dial, std::span<std::byte, kDialSize> into);
Dial decode_dial(std::span<const std::byte, kDialSize> bytes);

// Makes a socket pair, passes one end on, returns the other (non-blocking). Never waits: kind unavailable
// when the broker does not keep up.
sys::Result<sys::Fd> dial_broker(int dial_socket, const Dial& dial);

}  // namespace turnbox::vsock
