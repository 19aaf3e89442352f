#include "vmm/guest/exec_session.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace turnbox::guest {
namespace {

constexpr std::chrono::milliseconds kRecheck{20};  // where no descriptor tells of a process's death

void append_frame(std::string& out, FrameType type, std::string_view bytes) {
  const auto header = encode(FrameHeader{type, static_cast<uint32_t>(bytes.size())});
  out.append(sys::as_text(header)).append(bytes);
}

}  // namespace

ExecSession::ExecSession(Exec exec, std::unique_ptr<ProcessSet> set, Launched launched)
    : exec_(std::move(exec)), set_(std::move(set)), launched_(std::move(launched)) {
  if (exec_.timeout) timeout_ = Clock::now() + *exec_.timeout;
}

sys::Result<std::unique_ptr<ExecSession>> ExecSession::start(Exec exec, ProcessSets& sets) {
  TRY_ASSIGN(std::unique_ptr<ProcessSet> set, sets.make());
  TRY_ASSIGN(Launched launched, launch(exec, *set));
  return std::unique_ptr<ExecSession>(new ExecSession(std::move(exec), std::move(set), std::move(launched)));
}

bool ExecSession::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (frame_left_ > 0) {
      const size_t part = std::min<size_t>(frame_left_, bytes.size());
      if (launched_.input)
        stdin_.append(bytes.substr(0, part));  // a command that closed its stdin gets nothing
      frame_left_ -= static_cast<uint32_t>(part);
      bytes.remove_prefix(part);
      continue;
    }
    header_[header_have_++] = static_cast<std::byte>(bytes.front());
    bytes.remove_prefix(1);
    if (header_have_ < kFrameHeaderSize) continue;
    header_have_ = 0;
    const auto header = decode_frame_header(header_);
    if (!header || header->type != FrameType::stdin_data || stdin_closed_) return false;
    frame_left_ = header->length;
    if (header->length == 0) stdin_closed_ = true;
  }
  return true;
}

void ExecSession::leader_ended(int wait_status) {
  wait_status_ = wait_status;
  set_->leader_reaped();
}

void ExecSession::abandon() {
  abandoned_ = true;
  launched_.input.reset();
  launched_.output.reset();
  launched_.errors.reset();
  stdin_.clear();
  kill();
}

void ExecSession::watch(PollSet& poll, bool room) const {
  poll.watch(launched_.report.get(), POLLIN);
  if (!stdin_.empty() && state_ == State::running) poll.watch(launched_.input.get(), POLLOUT);
  if (room) {
    poll.watch(launched_.output.get(), POLLIN);
    poll.watch(launched_.errors.get(), POLLIN);
  }
  if (timeout_) poll.wake_at(*timeout_);
  if (state_ == State::draining && room) poll.wake_at(Clock::now());
  if (state_ == State::ending) {
    poll.watch(set_->events_fd(), POLLPRI);
    poll.wake_at(set_->events_fd() >= 0 ? patience_ : Clock::now() + kRecheck);
  }
}

void ExecSession::finish_start(std::string& out) {
  LaunchFailure failure{};
  const ssize_t got = ::read(launched_.report.get(), &failure, sizeof failure);
  if (got < 0) return;
  launched_.report.reset();
  if (got == 0) {
    state_ = State::running;
    if (!abandoned_) out += "{\"ok\":true,\"pid\":" + std::to_string(launched_.pid) + "}\n";
    return;
  }
  timeout_.reset();
  state_ = State::running;  // until the child is reaped; answered then, when the exec's id is free again
  const Refusal refusal = explain(failure, exec_);
  refused_ = refusal_line(refusal.error, refusal.text);
}

void ExecSession::pump_input() {
  while (launched_.input && !stdin_.empty()) {
    const ssize_t n = ::write(launched_.input.get(), stdin_.data(), stdin_.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return;
      launched_.input.reset();  // EPIPE: the command closed its stdin
      stdin_.clear();
      return;
    }
    stdin_.erase(0, static_cast<size_t>(n));
  }
  if (stdin_closed_ && stdin_.empty()) launched_.input.reset();
}

void ExecSession::pump_output(sys::Fd& pipe, FrameType type, bool last, std::string& out) {
  static std::array<char, kMaxFrame> bytes;  // one thread
  while (pipe && out.size() < kBound) {
    const ssize_t n = ::read(pipe.get(), bytes.data(), bytes.size());
    if (n > 0) {
      append_frame(out, type, {bytes.data(), static_cast<size_t>(n)});
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    // Once every process is dead, nothing more can come, even if somebody else still holds the pipe.
    if (n < 0 && errno == EAGAIN && !last) return;
    pipe.reset();
    append_frame(out, type, {});
  }
}

void ExecSession::begin_ending(Clock::time_point now) {
  kill();
  timeout_.reset();
  patience_ = now + kKillPatience;
  state_ = State::ending;
}

void ExecSession::finish(std::string& out) {
  launched_.input.reset();
  state_ = State::ended;
  if (abandoned_) return;
  if (!refused_.empty()) {
    out += refused_;
    return;
  }
  const int status = *wait_status_;
  std::string json = WIFSIGNALED(status) ? "{\"signal\":" + std::to_string(WTERMSIG(status))
                                         : "{\"exit\":" + std::to_string(WEXITSTATUS(status));
  const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  json += timed_out_ && killed ? ",\"timed_out\":true}" : "}";
  append_frame(out, FrameType::exit, json);
}

void ExecSession::work(const PollSet& poll, Clock::time_point now, std::string& out) {
  if (state_ == State::starting && (poll.ready(launched_.report.get(), POLLIN) || wait_status_))
    finish_start(out);
  if (state_ == State::starting) return;
  if (timeout_ && now >= *timeout_ && !wait_status_) {
    timed_out_ = true;
    timeout_.reset();
    kill();
  }
  pump_input();
  if (!refused_.empty()) {
    launched_.output.reset();
    launched_.errors.reset();
  }
  if (state_ == State::running && wait_status_) begin_ending(now);
  if (state_ == State::ending) {
    if (set_->empty() || now >= patience_) {
      state_ = State::draining;
    } else if (set_->events_fd() < 0) {
      kill();  // forked between two looks
    }
  }
  const bool last = state_ == State::draining;
  if (last || poll.ready(launched_.output.get(), POLLIN))
    pump_output(launched_.output, FrameType::stdout_data, last, out);
  if (last || poll.ready(launched_.errors.get(), POLLIN))
    pump_output(launched_.errors, FrameType::stderr_data, last, out);
  if (last && !launched_.output && !launched_.errors) finish(out);
}

}  // namespace turnbox::guest
