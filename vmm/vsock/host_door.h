// vsock.sock: takes host processes in, reads their CONNECT line, hands them to the muxer (docs/WIRE.md,
// «CONNECT»).
//
// One thread. Bounded: kMostGreetings sockets that have not said where they want to go, each for
// kGreetingTime; the next ones wait in the listener's backlog. No byte behind the line is taken from the
// socket.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "vmm/sys/fd.h"

namespace turnbox::vsock {

class HostDoor {
 public:
  static constexpr size_t kMostGreetings = 64;
  static constexpr std::chrono::seconds kGreetingTime{5};

  // `connect` gets a non-blocking socket and the guest port it asked for.
  using Connect = std::function<void(sys::Fd, uint32_t)>;

  HostDoor(boost::asio::io_context& io, sys::Fd listener, std::optional<uid_t> peer_uid, Connect connect);
  ~HostDoor();

  void open();   // begins to accept
  void close();  // no more

 private:
  struct Greeting;
  void wait();
  void accept_some();
  void greet(sys::Fd socket);
  void read_line(const std::shared_ptr<Greeting>& greeting);
  void end(const std::shared_ptr<Greeting>& greeting);
  void wait_line(const std::shared_ptr<Greeting>& greeting);

  boost::asio::io_context& io_;
  boost::asio::posix::stream_descriptor listener_;
  boost::asio::steady_timer pause_;
  const std::optional<uid_t> peer_uid_;
  const Connect connect_;
  std::set<std::shared_ptr<Greeting>> greetings_;
  bool waiting_ = false;
};

}  // namespace turnbox::vsock
