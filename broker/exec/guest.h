// One request to turnbox-init, one answer (docs/WIRE.md, «Exec sessions»), over vsockd's socket.
//
// Blocking, any thread, one connection a call. Nothing blocks beyond the deadline it is given, whatever the
// guest does. The guest's answers are hostile bytes: lines are bounded, JSON is checked, sentences are
// cleaned before they stand in an error. Errors: unavailable (no connection, no answer before the deadline,
// or stopped), protocol (an answer that breaks the format), conflict and invalid (the guest said no).
#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "vmm/sys/fd.h"

namespace turnbox::exec {

using Clock = std::chrono::steady_clock;

inline constexpr size_t kMaxAnswer = size_t{64} << 10;  // bytes of an answer line

// When a wait for the guest ends: at the deadline, or as soon as `stop_fd` (if any) is readable.
struct Patience {
  Clock::time_point until;
  int stop_fd = -1;
};

// A stream to the guest's port through `vsock.sock`, after the CONNECT handshake.
sys::Result<sys::Fd> connect_guest(const std::string& vsock_path, uint32_t port, Patience patience);

// The answer line of a connection, parsed. What stands behind the line stays in the socket.
sys::Result<boost::json::object> read_answer(int fd, Patience patience);
sys::Status send_request(int fd, const boost::json::object& request, Patience patience);

// UTF-8 as a string, other bytes as {"b16": "…"}.
boost::json::value text_value(std::string_view bytes);
// A string member as the guest gave it, fit for a terminal: at most 200 bytes of UTF-8 without control
// characters; empty when there is none.
std::string clean_text(const boost::json::object& answer, std::string_view key);

// Tries again until the guest answers `hello`, and gives it the host's clock. `stop` is asked between two
// tries. Returns the guest's kernel release.
sys::Result<std::string> await_guest(const std::string& vsock_path, Clock::time_point until,
                                     const std::function<bool()>& stop);

// Whether the guest wrote everything back within its deadline.
sys::Result<bool> flush(const std::string& vsock_path, std::chrono::milliseconds deadline);
sys::Status rebind(const std::string& vsock_path, uint64_t epoch, Clock::time_point until);
// The same, but the ids of what still runs instead of an error; none: it is bound.
sys::Result<std::vector<std::string>> try_rebind(const std::string& vsock_path, uint64_t epoch,
                                                 Clock::time_point until);
sys::Status kill(const std::string& vsock_path, const std::string& exec, int signal, Clock::time_point until);
sys::Status end(const std::string& vsock_path, const std::string& exec, Clock::time_point until);
sys::Status power_off(const std::string& vsock_path, Clock::time_point until);

}  // namespace turnbox::exec
