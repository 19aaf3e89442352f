// One exec: a command's processes and pipes, and the frames between them and the host.
//
// Knows no socket: bytes from the host are fed in, bytes for the host are appended to a buffer of the owner,
// who keeps `watch` → poll → `work` going. One thread; owned by its Connection.
//
//   starting ──execve ran──► running ──leader ended──► ending ──all dead──► draining ──pipes empty──► ended
//       └─────could not run──────────────────────────────►┘ (refused: no frames, the answer comes at the end)
//
// 1. Back-pressure both ways: pipes are read only while the outgoing buffer holds less than kBound, and
// wants_input() is
//    false while stdin bytes wait in more than kBound.
// 2. The exit frame is the last thing appended, after every process of the exec is dead and its output was
// read to the end.
//    A process that the kernel cannot kill within kKillPatience is left behind rather than waited for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "vmm/guest/exec_format.h"
#include "vmm/guest/launch.h"
#include "vmm/guest/poll_set.h"
#include "vmm/guest/process_set.h"

namespace turnbox::guest {

class ExecSession {
 public:
  static constexpr size_t kBound = 256 * 1024;
  static constexpr std::chrono::seconds kKillPatience{10};

  static sys::Result<std::unique_ptr<ExecSession>> start(Exec exec, ProcessSets& sets);

  const std::string& id() const { return exec_.id; }
  pid_t leader() const { return launched_.pid; }
  bool ended() const { return state_ == State::ended; }
  bool processes_gone() const { return state_ == State::draining || state_ == State::ended; }
  bool wants_input() const { return stdin_.size() < kBound; }

  // Frames from the host. False: the peer broke the protocol.
  [[nodiscard]] bool feed(std::string_view bytes);
  void leader_ended(int wait_status);
  void signal(int number) { set_->signal(number); }
  void kill() { set_->kill(); }
  void abandon();  // the host is gone: kill everything, nobody reads the output

  // `room`: the outgoing buffer holds less than kBound.
  void watch(PollSet& poll, bool room) const;
  // Does what can be done now; appends the answer line and frames to `out`.
  void work(const PollSet& poll, Clock::time_point now, std::string& out);

 private:
  enum class State { starting, running, ending, draining, ended };

  ExecSession(Exec exec, std::unique_ptr<ProcessSet> set, Launched launched);
  void finish_start(std::string& out);
  void pump_input();
  void pump_output(sys::Fd& pipe, FrameType type, bool last, std::string& out);
  void begin_ending(Clock::time_point now);
  void finish(std::string& out);

  Exec exec_;
  std::unique_ptr<ProcessSet> set_;
  Launched launched_;
  State state_ = State::starting;
  std::string refused_;  // the answer line of a command that could not run
  bool abandoned_ = false;
  bool timed_out_ = false;
  std::optional<Clock::time_point> timeout_;
  Clock::time_point patience_{};  // in State::ending
  std::optional<int> wait_status_;

  // stdin frames, taken apart
  std::array<std::byte, kFrameHeaderSize> header_{};
  size_t header_have_ = 0;
  uint32_t frame_left_ = 0;
  std::string stdin_;
  bool stdin_closed_ = false;  // the host said so
};

}  // namespace turnbox::guest
