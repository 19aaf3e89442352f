#include "vmm/guest/connection.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "vmm/guest/exec_format.h"
#include "vmm/guest/request.h"

namespace turnbox::guest {

void Connection::watch(PollSet& poll) const {
  short events = POLLRDHUP;
  if (exec_ ? exec_->wants_input() : !have_line_) events |= POLLIN;
  if (unsent() > 0) events |= POLLOUT;
  poll.watch(socket_.get(), events);
  if (exec_) exec_->watch(poll, unsent() < ExecSession::kBound);
}

void Connection::lose_peer() {
  socket_.reset();
  out_.clear();
  sent_ = 0;
  if (exec_ && !exec_->ended()) exec_->abandon();
}

std::optional<std::string> Connection::receive(const PollSet& poll) {
  if (!poll.ready(socket_.get(), POLLIN | POLLRDHUP)) return std::nullopt;
  // A request of a peer that has closed already is still done (power-off without waiting); an exec of such a
  // peer ends.
  if (have_line_ && poll.ready(socket_.get(), POLLRDHUP)) {
    lose_peer();
    return std::nullopt;
  }
  if (exec_ ? !exec_->wants_input() : have_line_) return std::nullopt;
  static std::array<char, 65'536> bytes;  // one thread
  const ssize_t n = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (n <= 0) {
    lose_peer();
    return std::nullopt;
  }
  const std::string_view got(bytes.data(), static_cast<size_t>(n));
  if (exec_) {
    if (!exec_->feed(got)) lose_peer();
    return std::nullopt;
  }
  line_ += got;
  const size_t end = line_.find('\n');
  if (end >= kMaxLine) {  // npos included
    if (line_.size() >= kMaxLine) {
      have_line_ = true;
      answer(refusal_line(kErrorInvalid,
                          "the request line is longer than " + std::to_string(kMaxLine) + " bytes"));
    }
    return std::nullopt;
  }
  have_line_ = true;
  std::string request = line_.substr(0, end);
  line_.erase(0, end + 1);
  return request;
}

void Connection::answer(std::string line) {
  answered_ = true;
  if (socket_) out_ += line;
}

void Connection::run(std::unique_ptr<ExecSession> exec) {
  exec_ = std::move(exec);
  if (!exec_->feed(line_)) lose_peer();
  line_.clear();
}

void Connection::send() {
  while (socket_ && unsent() > 0) {
    const ssize_t n = ::send(socket_.get(), out_.data() + sent_, unsent(), MSG_NOSIGNAL);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) break;
      return lose_peer();
    }
    sent_ += static_cast<size_t>(n);
  }
  if (unsent() == 0 || sent_ > ExecSession::kBound) {
    out_.erase(0, sent_);
    sent_ = 0;
  }
}

void Connection::work(const PollSet& poll, Clock::time_point now) {
  // exec_->work measures room by the buffer's size, so what was sent must be gone from it.
  if (exec_ && !exec_->ended()) {
    out_.erase(0, sent_);
    sent_ = 0;
    exec_->work(poll, now, out_);
  }
  send();
}

bool Connection::done() const {
  if (exec_ && !exec_->ended()) return false;
  if (!socket_) return true;
  return (answered_ || exec_) && unsent() == 0;
}

}  // namespace turnbox::guest
