#include "broker/exec/session.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>

#include "vmm/guest/exec_format.h"
#include "vmm/sys/bytes.h"

namespace turnbox::exec {
namespace {

namespace json = boost::json;
using guest::FrameHeader;
using guest::FrameType;
using sys::ErrorKind;

constexpr std::chrono::seconds kStart{30};  // for the guest's answer to a request
constexpr std::chrono::seconds kGone{5};    // to tell the command that nobody reads it
constexpr size_t kStdinPiece = 32'768;

bool is_regular(int fd) {
  struct stat st;
  return ::fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

// One of our output descriptors with what the guest sent for it and is not written yet.
struct Out {
  int fd;
  bool whole;  // a regular file takes everything at once; a pipe may block beyond PIPE_BUF after POLLOUT
  sys::Bytes pending{};
  size_t done = 0;
  bool gone = false;    // its reader went away
  bool closed = false;  // the guest said so

  bool busy() const { return done < pending.size(); }
};

class Pump {
 public:
  Pump(int guest, const Streams& streams, int stop_fd, std::optional<Clock::time_point> until)
      : guest_(guest),
        stop_(stop_fd),
        stdin_(streams.stdin_fd),
        until_(until),
        out_{{{.fd = streams.stdout_fd, .whole = is_regular(streams.stdout_fd)},
              {.fd = streams.stderr_fd, .whole = is_regular(streams.stderr_fd)}}} {
    if (stdin_ < 0) put_stdin_frame(0);  // poll would never report it
  }

  // Until the exit frame, or the stop descriptor. `on_gone` is called once when a reader of our output went
  // away.
  template <typename OnGone>
  sys::Result<Ended> run(const OnGone& on_gone) {
    while (true) {
      if (ended_ && !out_[0].busy() && !out_[1].busy()) return *ended_;
      std::array<pollfd, 5> ready = interests();
      const int got = ::poll(ready.data(), ready.size(), left_ms());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return sys::fail_errno("cannot wait for the guest");
      if (got == 0) {
        if (left_ms() > 0) continue;
        return sys::fail(ErrorKind::unavailable, "the guest did not end the command after its time-out");
      }
      if (ready[0].revents != 0) return Ended{.how = Ended::How::interrupted};
      for (size_t i = 0; i < 2; ++i) {
        if (ready[3 + i].revents != 0) TRY(write_out(out_[i]));
      }
      if ((out_[0].gone || out_[1].gone) && !told_gone_) {
        told_gone_ = true;
        on_gone();
      }
      if (ready[2].revents != 0) TRY(read_stdin());
      if ((ready[1].revents & POLLOUT) != 0) TRY(send_to_guest());
      if ((ready[1].revents & ~POLLOUT) != 0) TRY(read_guest());
    }
  }

 private:
  // The guest keeps the time-out; a guest that does not is given up. Output that our own side is slow to take
  // is no fault of the guest's.
  int left_ms() const {
    if (!until_ || ended_ || out_[0].busy() || out_[1].busy()) return -1;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*until_ - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000));
  }

  std::array<pollfd, 5> interests() const {
    const bool reading = !ended_ && !out_[0].busy() && !out_[1].busy();
    const bool sending = !ended_ && to_guest_done_ < to_guest_.size();
    const auto guest = static_cast<short>((reading ? POLLIN : 0) | (sending ? POLLOUT : 0));
    const bool input = !stdin_over_ && !sending && !ended_;
    auto out = [](const Out& o) { return pollfd{o.busy() ? o.fd : -1, POLLOUT, 0}; };
    return {pollfd{stop_, POLLIN, 0}, pollfd{guest != 0 ? guest_ : -1, guest, 0},
            pollfd{input ? stdin_ : -1, POLLIN, 0}, out(out_[0]), out(out_[1])};
  }

  sys::Status write_out(Out& out) {
    // Asked again for this one alone: the other stream may have filled the same pipe, and a write that blocks
    // would be deaf to a stop.
    pollfd now{out.fd, POLLOUT, 0};
    if (::poll(&now, 1, 0) <= 0) return {};
    const size_t left = out.pending.size() - out.done;
    const size_t most = out.whole ? left : std::min<size_t>(left, PIPE_BUF);
    const ssize_t n = ::write(out.fd, out.pending.data() + out.done, most);
    if (n >= 0) {
      out.done += static_cast<size_t>(n);
      return {};
    }
    if (errno == EINTR || errno == EAGAIN) return {};
    if (errno != EPIPE && errno != EBADF) return sys::fail_errno("cannot write the command's output");
    out.gone = true;
    out.done = out.pending.size();
    return {};
  }

  sys::Status read_stdin() {
    to_guest_.resize(guest::kFrameHeaderSize + kStdinPiece);
    const ssize_t n = ::read(stdin_, to_guest_.data() + guest::kFrameHeaderSize, kStdinPiece);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
      to_guest_.clear();
      to_guest_done_ = 0;
      return {};
    }
    // An unreadable standard input (a closed descriptor, a directory) is an empty one.
    put_stdin_frame(n > 0 ? static_cast<uint32_t>(n) : 0);
    return {};
  }

  // Makes a frame of what stands behind the room for its header.
  void put_stdin_frame(uint32_t size) {
    stdin_over_ = size == 0;
    to_guest_.resize(guest::kFrameHeaderSize + size);
    const auto header = guest::encode(FrameHeader{FrameType::stdin_data, size});
    std::copy(header.begin(), header.end(), to_guest_.begin());
    to_guest_done_ = 0;
  }

  sys::Status send_to_guest() {
    const ssize_t n = ::send(guest_, to_guest_.data() + to_guest_done_, to_guest_.size() - to_guest_done_,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      to_guest_done_ += static_cast<size_t>(n);
    } else if (errno == EPIPE || errno == ECONNRESET) {
      // The command is ending and takes no more input; its exit frame may still be on the way.
      stdin_over_ = true;
      to_guest_done_ = to_guest_.size();
    } else if (errno != EINTR && errno != EAGAIN) {
      return sys::fail_errno("cannot send to the guest");
    }
    return {};
  }

  sys::Status read_guest() {
    const size_t had = from_guest_.size();
    from_guest_.resize(guest::kFrameHeaderSize + guest::kMaxFrame);
    const ssize_t n = ::recv(guest_, from_guest_.data() + had, from_guest_.size() - had, MSG_DONTWAIT);
    from_guest_.resize(had + (n > 0 ? static_cast<size_t>(n) : 0));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return {};
    if (n <= 0)
      return sys::fail(ErrorKind::unavailable, "the guest's connection broke before the command ended");
    size_t taken = 0;
    while (!ended_) {
      auto frame = take_frame(sys::ByteSpan(from_guest_).subspan(taken));
      if (!frame) return tl::make_unexpected(std::move(frame).error());
      if (*frame == 0) break;
      taken += *frame;
    }
    from_guest_.erase(from_guest_.begin(), from_guest_.begin() + static_cast<ptrdiff_t>(taken));
    return {};
  }

  // Bytes of the first whole frame, which is dealt with; 0 when there is none yet.
  sys::Result<size_t> take_frame(sys::ByteSpan bytes) {
    if (bytes.size() < guest::kFrameHeaderSize) return size_t{0};
    const auto header = guest::decode_frame_header(bytes.first<guest::kFrameHeaderSize>());
    if (!header || header->type == FrameType::stdin_data) {
      return sys::fail(ErrorKind::protocol, "the guest sent a frame that breaks the format");
    }
    const size_t size = guest::kFrameHeaderSize + header->length;
    if (bytes.size() < size) return size_t{0};
    const sys::ByteSpan body = bytes.subspan(guest::kFrameHeaderSize, header->length);
    if (header->type == FrameType::exit) {
      TRY_ASSIGN(ended_, exit_of(body));
      return size;
    }
    Out& out = out_[header->type == FrameType::stdout_data ? 0 : 1];
    if (out.closed && !body.empty()) {
      return sys::fail(ErrorKind::protocol, "the guest sent output on a stream that it had closed");
    }
    out.closed = body.empty();
    if (out.gone || out.fd < 0) return size;
    if (!out.busy()) {
      out.pending.clear();
      out.done = 0;
    }
    sys::append(out.pending, body);
    return size;
  }

  static sys::Result<Ended> exit_of(sys::ByteSpan body) {
    boost::system::error_code ec;
    const json::value value = json::parse(sys::as_text(body), ec);
    const json::object* object = ec ? nullptr : value.if_object();
    auto number = [&](const char* key, int64_t least, int64_t most) -> std::optional<int> {
      const json::value* found = object->if_contains(key);
      if (found == nullptr || !found->is_int64()) return std::nullopt;
      const int64_t n = found->get_int64();
      return n < least || n > most ? std::nullopt : std::optional<int>(static_cast<int>(n));
    };
    if (object == nullptr) return sys::fail(ErrorKind::protocol, "the guest's exit frame is no JSON object");
    Ended ended;
    const json::value* timed_out = object->if_contains("timed_out");
    ended.timed_out = timed_out != nullptr && timed_out->is_bool() && timed_out->get_bool();
    if (const auto code = number("exit", 0, 255)) {
      ended.code = *code;
    } else if (const auto signal = number("signal", 1, 64)) {
      ended.how = Ended::How::signalled;
      ended.code = *signal;
    } else {
      return sys::fail(ErrorKind::protocol, "the guest's exit frame says neither exit nor signal");
    }
    return ended;
  }

  int guest_, stop_, stdin_;
  std::optional<Clock::time_point> until_;
  std::array<Out, 2> out_;
  sys::Bytes to_guest_, from_guest_;
  size_t to_guest_done_ = 0;
  bool stdin_over_ = false;
  bool told_gone_ = false;
  std::optional<Ended> ended_;
};

json::object request_of(const ExecSpec& spec) {
  json::array argv, env;
  for (const auto& word : spec.argv) argv.push_back(text_value(word));
  for (const auto& [key, value] : spec.env) env.push_back(json::array{text_value(key), text_value(value)});
  json::object request{{"op", "exec"},          {"exec", spec.exec},           {"argv", std::move(argv)},
                       {"env", std::move(env)}, {"cwd", text_value(spec.cwd)}, {"uid", spec.uid},
                       {"gid", spec.gid}};
  if (spec.timeout) request["timeout_ms"] = spec.timeout->count();
  return request;
}

// The exec is accepted: empty. Otherwise how it was refused.
sys::Result<std::optional<Ended>> start(int fd, const ExecSpec& spec, Patience patience) {
  TRY(send_request(fd, request_of(spec), patience));
  TRY_ASSIGN(const json::object answer, read_answer(fd, patience));
  const json::value* ok = answer.if_contains("ok");
  if (ok == nullptr || !ok->is_bool()) {
    return sys::fail(ErrorKind::protocol, "the guest's exec answer is wrong");
  }
  if (ok->get_bool()) return std::nullopt;
  return Ended{.how = Ended::How::not_started,
               .error = clean_text(answer, "error"),
               .text = clean_text(answer, "text")};
}

bool readable(int fd) {
  pollfd ready{fd, POLLIN, 0};
  return ::poll(&ready, 1, 0) > 0;
}

}  // namespace

sys::Result<Ended> run(const std::string& vsock_path, const ExecSpec& spec, const Streams& streams,
                       int stop_fd) {
  const Patience patience{Clock::now() + kStart, stop_fd};
  auto fd = connect_guest(vsock_path, guest::kExecPort, patience);
  auto refused = fd ? start(fd->get(), spec, patience) : tl::make_unexpected(fd.error());
  if (!refused) {
    if (readable(stop_fd)) return Ended{.how = Ended::How::interrupted};
    return tl::make_unexpected(std::move(refused).error());
  }
  if (*refused) return std::move(**refused);
  std::optional<Clock::time_point> until;
  if (spec.timeout) until = Clock::now() + *spec.timeout + spec.grace;
  auto on_gone = [&] { (void)kill(vsock_path, spec.exec, SIGPIPE, Clock::now() + kGone); };
  return Pump(fd->get(), streams, stop_fd, until).run(on_gone);
}

}  // namespace turnbox::exec
