// Child processes that get exactly the descriptors they are given.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "vmm/sys/fd.h"

namespace turnbox::sys {

struct Spawn {
  std::string program;            // absolute path
  std::vector<std::string> argv;  // argv[0] included
  std::vector<std::string> env;   // K=V; nothing is inherited
  std::vector<std::pair<int, int>>
      fds;                      // {ours, number in the child}; 0..2 left out become /dev/null (2 is kept)
  bool die_with_parent = true;  // PR_SET_PDEATHSIG SIGKILL
};

// How a child ended.
struct Exit {
  bool signalled = false;
  int code = 0;  // exit status, or the signal's number
};

// Owns one child through its pidfd: destroying it kills and reaps it. One thread.
class Process {
 public:
  Process() = default;
  Process(Process&& other) noexcept { *this = std::move(other); }
  Process& operator=(Process&& other) noexcept;
  ~Process();

  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }  // readable once the child ended
  explicit operator bool() const { return pid_ > 0; }

  Status signal(int number);
  std::optional<Exit> poll();                                       // empty while it runs; reaps
  std::optional<Exit> wait_for(std::chrono::milliseconds timeout);  // the same, waiting
  pid_t release();  // gives the child up: neither killed nor reaped by this object

  static Result<Process> spawn(const Spawn& what);

 private:
  pid_t pid_ = -1;
  Fd pidfd_;
  std::optional<Exit> exit_;
};

// The path of a program of ours: in the directory that TURNBOX_LIBEXEC names, beside the running executable, in its
// ../libexec/turnbox, or where a build tree has it. Kind not_found says where it was looked for.
Result<std::string> sibling_program(const std::string& name);

}  // namespace turnbox::sys
