// The line with which a host process asks for a guest port (docs/WIRE.md, «CONNECT»).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace turnbox::vsock {

inline constexpr size_t kMaxConnectLine = 32;  // newline included

// The port of `CONNECT <port>\n`: decimal, 0 to 2^32-1, nothing before, between or after.
std::optional<uint32_t> parse_connect(std::string_view line);
std::string connect_answer(uint32_t host_port);  // `OK <host port>\n`

}  // namespace turnbox::vsock
