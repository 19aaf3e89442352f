#include "broker/exec/guest.h"

#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <thread>

#include "vmm/guest/exec_format.h"
#include "vmm/sys/bytes.h"
#include "vmm/sys/socket.h"

namespace turnbox::exec {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;
using sys::ErrorKind;

constexpr milliseconds kRetry{20};      // between two tries while the guest boots
constexpr milliseconds kOneTry{2'000};  // for the hello of a guest that took the connection
constexpr milliseconds kGrace{2'000};   // beyond a deadline that the guest keeps itself

int left_ms(Clock::time_point until) {
  const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now()).count();
  return left < 0 ? 0 : static_cast<int>(std::min<int64_t>(left, 1'000'000));
}

// A line without its newline, byte by byte: what comes after it belongs to somebody else.
sys::Result<std::string> read_line(int fd, size_t most, Clock::time_point until) {
  std::string line;
  while (line.size() < most) {
    pollfd ready{fd, POLLIN, 0};
    const int got = ::poll(&ready, 1, left_ms(until));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return sys::fail(ErrorKind::unavailable, "no answer in time");
    // Peek, so that exactly the line is taken.
    char piece[4096];
    const ssize_t seen =
        ::recv(fd, piece, std::min(sizeof piece, most - line.size()), MSG_PEEK | MSG_DONTWAIT);
    if (seen < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (seen <= 0) return sys::fail(ErrorKind::unavailable, "the connection closed");
    const std::string_view text(piece, static_cast<size_t>(seen));
    const size_t newline = text.find('\n');
    const size_t take = newline == std::string_view::npos ? text.size() : newline + 1;
    if (::recv(fd, piece, take, MSG_DONTWAIT) != static_cast<ssize_t>(take)) {
      return sys::fail(ErrorKind::unavailable, "the connection broke");
    }
    line.append(piece, take);
    if (newline != std::string_view::npos) {
      line.pop_back();
      return line;
    }
  }
  return sys::fail(ErrorKind::protocol, "the guest's line is longer than " + std::to_string(most) + " bytes");
}

sys::Result<json::object> ask(const std::string& vsock_path, const json::object& request,
                              Clock::time_point until) {
  TRY_ASSIGN(const sys::Fd fd, connect_guest(vsock_path, guest::kExecPort, until));
  TRY(send_request(fd.get(), request));
  TRY_ASSIGN(json::object answer, read_answer(fd.get(), until));
  const json::value* ok = answer.if_contains("ok");
  if (ok != nullptr && ok->is_bool() && ok->get_bool()) return answer;
  const json::value* text = answer.if_contains("text");
  const json::value* word = answer.if_contains("error");
  const bool conflict = word != nullptr && word->is_string() && word->get_string() == guest::kErrorConflict;
  return sys::fail(
      conflict ? ErrorKind::conflict : ErrorKind::invalid,
      "the guest refused " + std::string(request.at("op").as_string()) + ": " +
          (text != nullptr && text->is_string() ? std::string(text->get_string()) : "no reason given"));
}

}  // namespace

sys::Result<sys::Fd> connect_guest(const std::string& vsock_path, uint32_t port, Clock::time_point until) {
  TRY_ASSIGN(sys::Fd fd, sys::connect_unix(vsock_path));
  TRY(sys::send_with_fds(fd.get(), sys::as_bytes("CONNECT " + std::to_string(port) + "\n")));
  TRY_ASSIGN(const std::string line, read_line(fd.get(), 32, until));
  if (!line.starts_with("OK "))
    return sys::fail(ErrorKind::protocol, "vsockd answered " + line + " to CONNECT");
  return fd;
}

json::value text_value(std::string_view bytes) {
  if (sys::is_utf8(bytes)) return json::string(bytes);
  return json::object{{"b16", sys::to_hex(sys::as_bytes(bytes))}};
}

sys::Status send_request(int fd, const json::object& request) {
  std::string line = json::serialize(request);
  line += '\n';
  if (line.size() > guest::kMaxLine) {
    return sys::fail(ErrorKind::limit, "the command and its environment have " + std::to_string(line.size()) +
                                           " bytes, more than " + std::to_string(guest::kMaxLine) +
                                           "; pass long arguments in a file (--input)");
  }
  return sys::send_with_fds(fd, sys::as_bytes(line));
}

sys::Result<json::object> read_answer(int fd, Clock::time_point until) {
  TRY_ASSIGN(const std::string line, read_line(fd, kMaxAnswer, until));
  boost::system::error_code ec;
  json::parse_options options;
  options.max_depth = 8;
  json::value value = json::parse(line, ec, {}, options);
  if (ec || !value.is_object()) return sys::fail(ErrorKind::protocol, "the guest's answer is no JSON object");
  return std::move(value.get_object());
}

sys::Result<std::string> await_guest(const std::string& vsock_path, Clock::time_point until,
                                     const std::function<bool()>& stop) {
  sys::Error last{ErrorKind::unavailable, "no answer"};
  while (Clock::now() < until && !stop()) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    const int64_t ns = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
    auto answer = ask(vsock_path, {{"op", "hello"}, {"clock_ns", std::to_string(ns)}},
                      std::min(until, Clock::now() + kOneTry));
    if (answer) {
      const json::value* version = answer->if_contains("version");
      if (version == nullptr || !version->is_int64() || version->get_int64() != guest::kExecVersion) {
        return sys::fail(ErrorKind::protocol,
                         "the image's turnbox-init speaks another exec version; run turnbox image build");
      }
      const json::value* kernel = answer->if_contains("kernel");
      return kernel != nullptr && kernel->is_string() ? std::string(kernel->get_string()) : std::string();
    }
    last = std::move(answer).error();
    std::this_thread::sleep_for(kRetry);
  }
  return tl::make_unexpected(std::move(last));
}

sys::Result<bool> flush(const std::string& vsock_path, milliseconds deadline) {
  TRY_ASSIGN(const json::object answer, ask(vsock_path, {{"op", "flush"}, {"deadline_ms", deadline.count()}},
                                            Clock::now() + deadline + kGrace));
  const json::value* flushed = answer.if_contains("flushed");
  if (flushed == nullptr || !flushed->is_bool())
    return sys::fail(ErrorKind::protocol, "the guest's flush answer is wrong");
  return flushed->get_bool();
}

sys::Status rebind(const std::string& vsock_path, uint64_t epoch, Clock::time_point until) {
  TRY(ask(vsock_path, {{"op", "rebind"}, {"epoch", epoch}}, until));
  return {};
}

sys::Status kill(const std::string& vsock_path, const std::string& exec, int signal,
                 Clock::time_point until) {
  TRY(ask(vsock_path, {{"op", "kill"}, {"exec", exec}, {"signal", signal}}, until));
  return {};
}

sys::Status end(const std::string& vsock_path, const std::string& exec, Clock::time_point until) {
  TRY(ask(vsock_path, {{"op", "end"}, {"exec", exec}}, until));
  return {};
}

sys::Status power_off(const std::string& vsock_path, Clock::time_point until) {
  TRY(ask(vsock_path, {{"op", "poweroff"}}, until));
  return {};
}

}  // namespace turnbox::exec
