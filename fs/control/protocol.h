// What both ends of the control socket share (docs/WIRE.md, «Control messages»): limits, error codes, lines
// with the descriptors that ride beside them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fs/tree/digest.h"
#include "vmm/sys/bytes.h"
#include "vmm/sys/fd.h"
#include "vmm/sys/result.h"

namespace turnbox::control {

using fs::ObjectKind;

inline constexpr int kVersion = 1;
inline constexpr size_t kMaxLine = size_t{1} << 20;    // newline included
inline constexpr size_t kMaxBulk = size_t{256} << 20;  // one memfd of either side
inline constexpr size_t kObjectBatch = size_t{64}
                                       << 20;  // an object stream piece is cut at the first record past this
inline constexpr size_t kMaxQueuedFds = 32;
inline constexpr size_t kMaxEvent = size_t{64} << 10;  // one line of an event log, newline included

// JSON-RPC 2.0 error codes in use.
enum Code : int {
  kParseError = -32700,
  kInvalidRequest = -32600,
  kMethodNotFound = -32601,
  kInvalidParams = -32602,
  kInternal = -32603,
  kNotFound = -32001,
  kConflict = -32002,
  kRefused = -32003,
  kLimit = -32004,
  kUnavailable = -32005,
};
Code code_of(sys::ErrorKind kind);
sys::ErrorKind kind_of(int code);  // protocol for a code that is none of ours

// Bytes that may not be UTF-8 travel as a string or as {"b16": "…"}; object kinds by their name.
std::optional<ObjectKind> object_kind(std::string_view name);

// Splits received bytes into lines and keeps the descriptors that came with them, in order of arrival: a
// message says in its member `fds` how many of them are its own. Memory is bounded by the longest line and
// one receive.
class LineBuffer {
 public:
  explicit LineBuffer(size_t longest) : longest_(longest) {}

  // False when more than kMaxQueuedFds descriptors wait: the peer sends descriptors that belong to no
  // message.
  bool feed(sys::ByteSpan bytes, std::vector<sys::Fd> fds);

  enum class Next { none, line, too_long };
  // The next whole line, without its newline. too_long: a line passed the limit; it is dropped up to its
  // newline, told once.
  Next next(std::string& line);

  // The oldest `count` descriptors; nothing when fewer wait.
  std::optional<std::vector<sys::Fd>> take_fds(size_t count);
  // Closes descriptors that no message claimed, once no part of a message is left; their number.
  size_t drop_stray_fds();

 private:
  size_t longest_;
  std::string bytes_;
  size_t start_ = 0;    // of the first line not yet taken
  size_t scanned_ = 0;  // no newline before this
  bool dropping_ = false;
  std::deque<sys::Fd> fds_;
};

}  // namespace turnbox::control
