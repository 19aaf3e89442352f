// The descriptors of one turn of the loop, and what poll(2) said about them. Rebuilt each turn; one thread.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

namespace turnbox::guest {

using Clock = std::chrono::steady_clock;

class PollSet {
 public:
  void clear() {
    fds_.clear();
    wake_.reset();
  }
  void watch(int fd, short events) {
    if (fd >= 0) fds_.push_back({fd, events, 0});
  }
  void wake_at(Clock::time_point when) { wake_ = wake_ ? std::min(*wake_, when) : when; }

  // Waits for an event or the earliest wake-up.
  void wait() {
    int timeout = -1;
    if (wake_) {
      // Rounded up, so that a wake-up never comes just before its time and spins.
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*wake_ - Clock::now());
      timeout = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 3'600'000));
    }
    if (::poll(fds_.data(), fds_.size(), timeout) < 0) {
      for (pollfd& entry : fds_) entry.revents = 0;
    }
  }

  // Any of `events`, or a hang-up or an error, on a watched descriptor.
  bool ready(int fd, short events) const {
    if (fd < 0) return false;
    return std::ranges::any_of(fds_, [&](const pollfd& entry) {
      return entry.fd == fd && (entry.revents & (events | POLLHUP | POLLERR)) != 0;
    });
  }

 private:
  std::vector<pollfd> fds_;
  std::optional<Clock::time_point> wake_;
};

}  // namespace turnbox::guest
