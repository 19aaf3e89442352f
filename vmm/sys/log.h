// Logging of the daemons and the command: spdlog to stderr, one line each, and a limiter for what a guest can
// cause.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace turnbox::sys {

// Once, from main. Lines read «NAME: level: text»; TURNBOX_LOG=debug|info|warn|error sets the level (warn
// otherwise).
void start_log(const std::string& name);

// A token bucket in front of log lines that a hostile peer can cause: `burst` at once, then `per_second`.
// Suppressed lines are counted and told with the next one that passes. One thread.
class LogLimit {
 public:
  using Clock = std::chrono::steady_clock;
  explicit LogLimit(unsigned burst = 10, unsigned per_second = 1)
      : burst_(burst), per_second_(per_second), tokens_(burst) {}

  bool pass(Clock::time_point now = Clock::now());
  uint64_t take_suppressed();  // since the last line that passed

 private:
  unsigned burst_;
  unsigned per_second_;
  double tokens_;
  Clock::time_point last_{};
  uint64_t suppressed_ = 0;
};

}  // namespace turnbox::sys
