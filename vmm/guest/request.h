// One request line of an exec session as a value (docs/WIRE.md, «Exec sessions»). Pure, any thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "vmm/sys/result.h"

namespace turnbox::guest {

struct Hello {
  int64_t clock_ns;  // CLOCK_REALTIME of the host
};
struct Exec {
  std::string id;                 // 1..64 of [A-Za-z0-9._-]
  std::vector<std::string> argv;  // at least one; no NUL inside, as everywhere below
  std::vector<std::string> env;   // K=V
  std::string cwd;                // absolute
  uid_t uid = 0;
  gid_t gid = 0;
  std::optional<std::chrono::milliseconds> timeout;
};
struct Kill {
  std::string id;
  int signal;  // 1..64
};
struct End {
  std::string id;
};
struct Flush {
  std::chrono::milliseconds deadline;
};
struct Rebind {
  uint32_t epoch;  // from 1
};
struct PowerOff {};

using Request = std::variant<Hello, Exec, Kill, End, Flush, Rebind, PowerOff>;

// `line` without its newline. Errors are of kind invalid. Unknown operations and unknown members are refused
// by name.
sys::Result<Request> parse_request(std::string_view line);

// {"ok":false,"error":"…","text":"…"} and a newline.
std::string refusal_line(std::string_view error, std::string_view text);

}  // namespace turnbox::guest
