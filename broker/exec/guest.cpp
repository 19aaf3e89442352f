#include "broker/exec/guest.h"

#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <array>
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

// Until the socket is ready, or `patience` is at its end.
sys::Status wait_ready(int fd, short events, Patience patience) {
  while (true) {
    std::array<pollfd, 2> ready{pollfd{fd, events, 0}, pollfd{patience.stop_fd, POLLIN, 0}};
    const int got = ::poll(ready.data(), ready.size(), left_ms(patience.until));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return sys::fail_errno("cannot wait for the guest");
    if (ready[1].revents != 0)
      return sys::fail(ErrorKind::unavailable, "stopped while waiting for the guest");
    if (got == 0) return sys::fail(ErrorKind::unavailable, "no answer in time");
    return {};
  }
}

// A line without its newline; exactly the line is taken, for what comes after it belongs to somebody else.
sys::Result<std::string> read_line(int fd, size_t most, Patience patience) {
  std::string line;
  while (line.size() < most) {
    TRY(wait_ready(fd, POLLIN, patience));
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

sys::Status send_all(int fd, std::string_view bytes, Patience patience) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      TRY(wait_ready(fd, POLLOUT, patience));
    } else if (errno != EINTR) {
      return sys::fail(ErrorKind::unavailable, "the connection closed");
    }
  }
  return {};
}

sys::Result<json::object> ask(const std::string& vsock_path, const json::object& request,
                              Clock::time_point until) {
  const Patience patience{until};
  TRY_ASSIGN(const sys::Fd fd, connect_guest(vsock_path, guest::kExecPort, patience));
  TRY(send_request(fd.get(), request, patience));
  TRY_ASSIGN(json::object answer, read_answer(fd.get(), patience));
  const json::value* ok = answer.if_contains("ok");
  if (ok == nullptr || !ok->is_bool())
    return sys::fail(ErrorKind::protocol, "the guest's answer has no «ok»");
  if (ok->get_bool()) return answer;
  const std::string text = clean_text(answer, "text");
  return sys::fail(
      clean_text(answer, "error") == guest::kErrorConflict ? ErrorKind::conflict : ErrorKind::invalid,
      "the guest refused " + std::string(request.at("op").as_string()) + ": " +
          (text.empty() ? "no reason given" : text));
}

}  // namespace

sys::Result<sys::Fd> connect_guest(const std::string& vsock_path, uint32_t port, Patience patience) {
  auto connected = sys::connect_unix(vsock_path);
  if (!connected) return sys::fail(ErrorKind::unavailable, std::move(connected).error().text);
  TRY(send_all(connected->get(), "CONNECT " + std::to_string(port) + "\n", patience));
  TRY_ASSIGN(const std::string line, read_line(connected->get(), 32, patience));
  if (!line.starts_with("OK "))
    return sys::fail(ErrorKind::protocol, "turnbox-vsockd answered CONNECT without OK");
  return std::move(*connected);
}

std::string clean_text(const json::object& answer, std::string_view key) {
  constexpr size_t kMost = 200;
  const json::value* found = answer.if_contains(key);
  if (found == nullptr || !found->is_string() || !sys::is_utf8(found->get_string())) return {};
  std::string text(found->get_string());
  if (text.size() > kMost) {
    size_t cut = kMost;
    while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80)
      --cut;  // not inside a character
    text.resize(cut);
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // C0, DEL, and C1 in its two bytes of UTF-8: nothing here may move a cursor.
    const bool c1 = byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (byte < 0x20 || byte == 0x7f) text[i] = ' ';
    if (c1) text[i] = text[i + 1] = ' ';
  }
  return text;
}

json::value text_value(std::string_view bytes) {
  if (sys::is_utf8(bytes)) return json::string(bytes);
  return json::object{{"b16", sys::to_hex(sys::as_bytes(bytes))}};
}

sys::Status send_request(int fd, const json::object& request, Patience patience) {
  std::string line = json::serialize(request);
  line += '\n';
  if (line.size() > guest::kMaxLine) {
    return sys::fail(ErrorKind::limit, "the command and its environment have " + std::to_string(line.size()) +
                                           " bytes, more than " + std::to_string(guest::kMaxLine) +
                                           "; pass long arguments in a file (--input)");
  }
  return send_all(fd, line, patience);
}

sys::Result<json::object> read_answer(int fd, Patience patience) {
  TRY_ASSIGN(const std::string line, read_line(fd, kMaxAnswer, patience));
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
      return clean_text(*answer, "kernel");
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

sys::Result<std::vector<std::string>> try_rebind(const std::string& vsock_path, uint64_t epoch,
                                                 Clock::time_point until) {
  constexpr std::string_view kRunning = "execs are running: ";
  const auto bound = rebind(vsock_path, epoch, until);
  if (bound) return std::vector<std::string>();
  const std::string& text = bound.error().text;
  size_t at = text.find(kRunning);
  if (bound.error().kind != ErrorKind::conflict || at == text.npos) return tl::make_unexpected(bound.error());
  std::vector<std::string> ids;
  for (at += kRunning.size(); at < text.size();) {
    const size_t end = std::min(text.find(", ", at), text.size());
    ids.push_back(text.substr(at, end - at));
    at = end + 2;
  }
  return ids;
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
