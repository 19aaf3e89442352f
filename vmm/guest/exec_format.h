// The exec session format between host and guest: one JSON request line, one JSON answer line, then frames.
//
// Shared by turnbox-init (vmm/guest) and the host side (broker/exec); both sides check what they read. Pure
// values, any thread. Specified in docs/WIRE.md, «Exec sessions»; golden bytes in
// tests/unit/guest/exec_format_test.cpp.
//
// 1. A connection carries exactly one request. The line ends with '\n' and is at most kMaxLine bytes, newline
// included.
// 2. After an `exec` answered with "ok":true both directions carry frames: stdin from the host, the rest from
// the guest.
// 3. `env` is the whole environment of the command. PATH in it is searched; without one, kDefaultPath is.
// 4. A half-closed connection counts as closed: the exec is killed. stdin ends with an empty stdin frame
// instead.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "vmm/sys/bytes.h"

namespace turnbox::guest {

inline constexpr uint32_t kExecPort = 1025;
inline constexpr int kExecVersion = 1;
inline constexpr size_t kMaxLine = size_t{1} << 20;
inline constexpr size_t kFrameHeaderSize = 8;
inline constexpr uint32_t kMaxFrame = 65'536;  // bytes after the header
inline constexpr std::string_view kDefaultPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

enum class FrameType : uint8_t { stdin_data = 1, stdout_data = 2, stderr_data = 3, exit = 4 };

struct FrameHeader {
  FrameType type;
  uint32_t length;  // at most kMaxFrame
  bool operator==(const FrameHeader&) const = default;
};

inline std::array<std::byte, kFrameHeaderSize> encode(FrameHeader header) {
  std::array<std::byte, kFrameHeaderSize> bytes{};
  bytes[0] = static_cast<std::byte>(header.type);
  sys::store_le<uint32_t>(bytes.data() + 4, header.length);
  return bytes;
}

// Empty when the type is unknown, a reserved byte is set or the length passes kMaxFrame: drop that peer.
inline std::optional<FrameHeader> decode_frame_header(std::span<const std::byte, kFrameHeaderSize> bytes) {
  const auto type = static_cast<uint8_t>(bytes[0]);
  const auto length = sys::load_le<uint32_t>(bytes.data() + 4);
  if (type < 1 || type > 4 || length > kMaxFrame) return std::nullopt;
  for (size_t i = 1; i < 4; ++i) {
    if (bytes[i] != std::byte{0}) return std::nullopt;
  }
  return FrameHeader{static_cast<FrameType>(type), length};
}

// The words of "error" in an answer with "ok":false.
inline constexpr std::string_view kErrorNotFound = "not_found";            // no such program: exit status 127
inline constexpr std::string_view kErrorNotExecutable = "not_executable";  // there, but cannot be run: 126
inline constexpr std::string_view kErrorInvalid = "invalid";    // the request itself, or its cwd, is wrong
inline constexpr std::string_view kErrorConflict = "conflict";  // exec id in use; rebind while execs run
inline constexpr std::string_view kErrorIo = "io";              // the guest's kernel failed a call

}  // namespace turnbox::guest
