// An exec session: one command in the guest, its standard streams pumped byte for byte until its exit frame.
//
// Blocking, one thread. Back-pressure all the way: the guest's frames are read only once what came before is
// written out, and standard input is read only once the guest took what came before. Frames are hostile bytes
// (exec_format.h).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "broker/exec/guest.h"

namespace turnbox::exec {

struct ExecSpec {
  std::string exec;                                      // id, unique among live execs
  std::vector<std::string> argv;                         // any bytes but NUL
  std::vector<std::pair<std::string, std::string>> env;  // the whole environment
  std::string cwd = "/";
  uint32_t uid = 0, gid = 0;
  std::optional<std::chrono::milliseconds> timeout;  // kept by the guest
  std::chrono::milliseconds grace{10'000};           // after it, a guest that did not keep it is given up
};

// Borrowed descriptors of the caller; their flags are not changed. A closed stdin, or -1, counts as empty;
// output for -1 is dropped.
struct Streams {
  int stdin_fd = 0;
  int stdout_fd = 1;
  int stderr_fd = 2;
};

struct Ended {
  enum class How { exited, signalled, not_started, interrupted };
  How how = How::exited;
  int code = 0;            // exit status or signal number
  bool timed_out = false;  // the guest's time-out killed it
  std::string error;       // not_started: the word of exec_format.h
  std::string text;        // and its sentence
};

// Ends with the exit frame, or as `interrupted` when `stop_fd` becomes readable (the exec is then left to the
// caller: closing the connection kills it). Whoever reads our stdout or stderr went away: the command gets
// SIGPIPE (the caller ignores its own). Errors: unavailable (the connection broke, or the guest did not end
// the command within its time-out and the grace), protocol, limit (the request is too long), io (output could
// not be written).
sys::Result<Ended> run(const std::string& vsock_path, const ExecSpec& spec, const Streams& streams,
                       int stop_fd);

}  // namespace turnbox::exec
