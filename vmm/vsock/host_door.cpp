#include "vmm/vsock/host_door.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "vmm/sys/socket.h"
#include "vmm/vsock/connect.h"

namespace turnbox::vsock {

namespace asio = boost::asio;

struct HostDoor::Greeting {
  Greeting(asio::io_context& io, sys::Fd fd) : socket(io, fd.release()), deadline(io, kGreetingTime) {}
  asio::posix::stream_descriptor socket;
  asio::steady_timer deadline;
  std::string line;
};

HostDoor::HostDoor(asio::io_context& io, sys::Fd listener, std::optional<uid_t> peer_uid, Connect connect)
    : io_(io),
      listener_(io, listener.release()),
      pause_(io),
      peer_uid_(peer_uid),
      connect_(std::move(connect)) {}

HostDoor::~HostDoor() {
  close();
}

void HostDoor::open() {
  wait();
}

void HostDoor::close() {
  boost::system::error_code ignored;
  listener_.close(ignored);
  pause_.cancel();
  const auto greetings = greetings_;
  for (const auto& greeting : greetings) end(greeting);
}

void HostDoor::wait() {
  if (waiting_ || !listener_.is_open() || greetings_.size() >= kMostGreetings) return;
  waiting_ = true;
  listener_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [this](const boost::system::error_code& error) {
                         if (error) return;
                         waiting_ = false;
                         accept_some();
                       });
}

void HostDoor::accept_some() {
  while (greetings_.size() < kMostGreetings) {
    sys::Fd socket(::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      greet(std::move(socket));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    // No descriptors or no memory: the caller waits in the backlog until something is free again.
    spdlog::warn("cannot accept a host connection: {}", std::strerror(errno));
    pause_.expires_after(std::chrono::milliseconds(100));
    pause_.async_wait([this](const boost::system::error_code& error) {
      if (!error) wait();
    });
    return;
  }
  wait();
}

void HostDoor::greet(sys::Fd socket) {
  if (peer_uid_) {
    const auto peer = sys::peer_of(socket.get());
    if (!peer || peer->uid != *peer_uid_) {
      spdlog::warn("refused a host connection of uid {}", peer ? peer->uid : uid_t(-1));
      return;
    }
  }
  const auto greeting = std::make_shared<Greeting>(io_, std::move(socket));
  greetings_.insert(greeting);
  greeting->deadline.async_wait([this, greeting](const boost::system::error_code& error) {
    if (!error && greetings_.contains(greeting)) end(greeting);
  });
  read_line(greeting);
}

void HostDoor::wait_line(const std::shared_ptr<Greeting>& greeting) {
  greeting->socket.async_wait(asio::posix::stream_descriptor::wait_read,
                              [this, greeting](const boost::system::error_code& error) {
                                if (!error && greetings_.contains(greeting)) read_line(greeting);
                              });
}

void HostDoor::read_line(const std::shared_ptr<Greeting>& greeting) {
  const int fd = greeting->socket.native_handle();
  for (;;) {
    // A look first, so that what follows the line stays in the socket for the guest.
    std::array<char, kMaxConnectLine> seen;
    const size_t room = kMaxConnectLine - greeting->line.size();
    const ssize_t n = ::recv(fd, seen.data(), room, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return wait_line(greeting);
    if (n <= 0) return end(greeting);
    const std::string_view bytes(seen.data(), static_cast<size_t>(n));
    const size_t newline = bytes.find('\n');
    const std::string_view taken = bytes.substr(0, newline == bytes.npos ? bytes.npos : newline + 1);
    greeting->line += taken;
    if (::recv(fd, seen.data(), taken.size(), MSG_DONTWAIT) != static_cast<ssize_t>(taken.size()))
      return end(greeting);
    if (newline != bytes.npos) break;
    if (greeting->line.size() == kMaxConnectLine) return end(greeting);
  }
  const auto port = parse_connect(greeting->line);
  if (!port) return end(greeting);
  sys::Fd socket(greeting->socket.release());
  end(greeting);
  connect_(std::move(socket), *port);
}

void HostDoor::end(const std::shared_ptr<Greeting>& greeting) {
  const auto kept = greeting;
  greetings_.erase(kept);
  kept->deadline.cancel();
  boost::system::error_code ignored;
  kept->socket.close(ignored);
  wait();
}

}  // namespace turnbox::vsock
