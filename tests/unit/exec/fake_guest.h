// turnbox-init and turnbox-vsockd as a test wants them: listens on a vsock.sock, answers CONNECT, and hands
// every connection with its request line to a script.
#pragma once

#include <atomic>
#include <boost/json/object.hpp>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "vmm/guest/exec_format.h"
#include "vmm/sys/fd.h"

namespace turnbox::exec {

// The guest's end of one connection. What it says may fail: the host may have hung up, as some cases want it
// to.
class Peer {
 public:
  explicit Peer(int fd) : fd_(fd) {}

  void say(std::string_view bytes);
  void frame(guest::FrameType type, std::string_view bytes = {});
  void exits(std::string_view json) { frame(guest::FrameType::exit, json); }
  // A line without its newline, or what came before the end.
  std::string hear_line();
  std::string hear(size_t size);
  // Standard input up to its end, out of its frames.
  std::string hear_stdin();
  bool ended();  // waits until the host closes

 private:
  int fd_;
};

class FakeGuest {
 public:
  using Script = std::function<void(Peer&, const boost::json::object& request)>;

  // `refused`: so many connections are closed without OK first, as when nobody listens yet.
  explicit FakeGuest(Script script, int refused = 0);
  ~FakeGuest();

  const std::string& path() const { return path_; }
  std::vector<boost::json::object> requests();

 private:
  void serve();
  void talk(sys::Fd fd);

  Script script_;
  std::atomic<int> refused_;
  std::string directory_, path_;
  sys::Fd listener_;
  std::mutex mutex_;
  std::vector<boost::json::object> requests_;
  std::vector<std::thread> talks_;  // the serving thread's
  std::thread thread_;
};

}  // namespace turnbox::exec
