// One connection from the host: a request line, its answer, and for an exec the frames. One thread; owned by
// the Server.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "vmm/guest/exec_session.h"
#include "vmm/guest/poll_set.h"
#include "vmm/sys/fd.h"

namespace turnbox::guest {

class Connection {
 public:
  explicit Connection(sys::Fd socket) : socket_(std::move(socket)) {}  // non-blocking

  void watch(PollSet& poll) const;
  // Reads what the host sent. A complete request line is returned once, without its newline; what came after
  // it stays here for the exec.
  std::optional<std::string> receive(const PollSet& poll);
  void work(const PollSet& poll, Clock::time_point now);  // after receive

  void answer(std::string line);  // the last thing this connection says, unless it runs an exec
  void run(std::unique_ptr<ExecSession> exec);

  ExecSession* exec() const { return exec_.get(); }
  bool peer_gone() const { return !socket_; }
  bool answered() const { return answered_ && unsent() == 0; }
  bool done() const;  // to be dropped

 private:
  size_t unsent() const { return out_.size() - sent_; }
  void lose_peer();
  void send();

  sys::Fd socket_;
  std::string line_;
  bool have_line_ = false;
  bool answered_ = false;
  std::unique_ptr<ExecSession> exec_;
  std::string out_;
  size_t sent_ = 0;
};

}  // namespace turnbox::guest
