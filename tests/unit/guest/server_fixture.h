// A real Server in a child process of its own (it reaps every child it has), reached through a unix socket.
//
// One fixture a test case; destroying it ends the server and everything it started. The server's Machine is
// this file's: it records clocks and rebinds instead of doing them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vmm/guest/exec_format.h"
#include "vmm/guest/process_set.h"
#include "vmm/sys/fd.h"

namespace turnbox::guest::test {

// One connection as the host sees it. Every read fails the test case after a while rather than hang.
class Peer {
 public:
  explicit Peer(sys::Fd socket) : socket_(std::move(socket)) {}

  void send(std::string_view bytes);
  void send_frame(FrameType type, std::string_view bytes);
  std::string line();                                        // without its newline
  std::optional<std::pair<FrameType, std::string>> frame();  // empty at end of file
  bool at_end();                                             // nothing more comes
  void close() { socket_.reset(); }
  void half_close();

 private:
  bool fill(size_t count);
  sys::Fd socket_;
  std::string have_;
};

struct Outcome {
  std::string out;
  std::string err;
  std::string exit;  // the exit frame's JSON
  int closings = 0;  // empty stdout and stderr frames
};

class ServerProcess {
 public:
  explicit ServerProcess(bool try_cgroup);
  ~ServerProcess();

  Peer connect();
  void make_flush(std::string_view how) const;  // "stuck": it never ends; "broken": it fails
  std::string ask(std::string_view line);       // one request, one answer
  Outcome collect(Peer& peer);                  // frames to the end
  bool waits_for_exit();                        // the server process ended by itself, with status 0

  // {"op":"exec",…} with sh -c `script`.
  static std::string sh(std::string_view id, std::string_view script, std::string_view more = "");
  static ProcessSets::Kind best_kind();

 private:
  std::string path_;
  pid_t pid_ = -1;
};

// True once no process has `word` in its command line.
bool all_gone(std::string_view word, std::chrono::milliseconds within = std::chrono::milliseconds(5000));

}  // namespace turnbox::guest::test
