// The loop of turnbox-init: accepts the host's connections, answers requests, runs execs, reaps.
//
// Independent of AF_VSOCK and of being PID 1: what only a booted guest can do is behind Machine. One thread;
// SIGCHLD must be blocked by the caller, and every child of the process is reaped here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "vmm/guest/connection.h"
#include "vmm/guest/process_set.h"
#include "vmm/guest/request.h"

namespace turnbox::guest {

// The guest as a machine.
struct Machine {
  std::function<sys::Status(int64_t clock_ns)> set_clock;
  std::function<sys::Status(uint32_t epoch)> rebind;
  std::function<sys::Result<sys::Fd>(sys::Fd& listener)> accept;  // non-blocking socket of an acceptable peer
  std::function<bool()> flush;  // in a child, since it may hang for as long as the host's file system does
};

class Server {
 public:
  Server(Machine machine, ProcessSets& sets, sys::Fd listener);  // the listener is non-blocking
  ~Server();

  // Until the host asked for power-off and closed, with every exec dead; at most kLinger after it asked.
  sys::Status run();

 private:
  static constexpr std::chrono::milliseconds kLinger{500};

  struct Flushing {
    Connection* asker;
    pid_t pid;
    Clock::time_point deadline;
  };
  struct Waiting {  // for the end of an exec
    Connection* asker;
    std::string id;
  };

  void turn();
  void accept_all();
  void reap();
  void dispatch(Connection& from, std::string_view line);
  void handle(Connection& from, const Hello& request);
  void handle(Connection& from, Exec& request);
  void handle(Connection& from, const Kill& request);
  void handle(Connection& from, const End& request);
  void handle(Connection& from, const Flush& request);
  void handle(Connection& from, const Rebind& request);
  void handle(Connection& from, const PowerOff& request);
  void answer_waiting(Clock::time_point now);
  void drop_done();
  ExecSession* live_exec(std::string_view id) const;

  Machine machine_;
  ProcessSets& sets_;
  sys::Fd listener_;
  sys::Fd signals_;
  PollSet poll_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Flushing> flushing_;
  std::vector<Waiting> waiting_;
  Connection* power_off_asker_ = nullptr;
  std::optional<Clock::time_point> power_off_at_;
};

}  // namespace turnbox::guest
