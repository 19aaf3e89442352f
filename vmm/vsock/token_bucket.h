// A token bucket: `burst` at once, then `per_second`. One thread.
#pragma once

#include <algorithm>
#include <chrono>

namespace turnbox::vsock {

class TokenBucket {
 public:
  using Clock = std::chrono::steady_clock;
  TokenBucket(unsigned burst, unsigned per_second) : burst_(burst), per_second_(per_second), tokens_(burst) {}

  bool take(Clock::time_point now = Clock::now()) {
    if (last_ != Clock::time_point{}) {
      const double passed = std::chrono::duration<double>(now - last_).count();
      tokens_ = std::min<double>(burst_, tokens_ + std::max(0.0, passed) * per_second_);
    }
    last_ = now;
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

 private:
  unsigned burst_;
  unsigned per_second_;
  double tokens_;
  Clock::time_point last_{};
};

}  // namespace turnbox::vsock
