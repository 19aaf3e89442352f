// How long to watch an empty ring before going to sleep: as long as it has paid lately, up to a bound.
//
// Owned by a ring; one thread. A window that saw nothing come is halved, down to nothing; one that did, or a
// sleep that a full window would have saved, makes it whole again. So a guest that asks one thing after the
// other costs no wake-ups, and an idle one no processor time.
#pragma once

#include <chrono>
#include <optional>

namespace turnbox::vhost {

class Watch {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = Clock::time_point (*)();

  Watch() = default;  // never
  explicit Watch(std::chrono::nanoseconds most, Now now = Clock::now)
      : most_(most), window_(most), now_(now) {}

  // A round begins: was the sleep before it a short one?
  void begin_round() {
    spent_ = {};
    if (!slept_) return;
    if (now_() - *slept_ < most_) window_ = most_;
    slept_.reset();
  }
  // This round has watched for its share: other queues and the control socket have theirs.
  bool over() const { return spent_.count() > 0 && spent_ >= 2 * most_; }
  // False: no, and the sleep begins.
  bool worth_it() {
    if (window_.count() > 0) return true;
    if (most_.count() > 0) slept_ = now_();
    return false;
  }

  // Looks until `came` is true, and then is, or the window is over.
  template <typename Came>
  bool until(const Came& came) {
    const auto start = now_();
    for (auto now = start;; now = now_()) {
      for (int i = 0; i < kLooks; ++i) {
        if (came()) return ended(now_() - start, true);
        __builtin_ia32_pause();
      }
      if (now - start >= window_) return ended(now - start, false);
    }
  }

  std::chrono::nanoseconds window() const { return window_; }

 private:
  static constexpr int kLooks = 16;  // between two looks at the clock
  static constexpr std::chrono::nanoseconds kLeast{2000};

  bool ended(std::chrono::nanoseconds took, bool came) {
    spent_ += took;
    if (came) {
      window_ = most_;
      return true;
    }
    window_ = window_ / 2 < kLeast ? std::chrono::nanoseconds(0) : window_ / 2;
    slept_ = now_();
    return false;
  }

  std::chrono::nanoseconds most_{0}, window_{0}, spent_{0};
  Now now_ = Clock::now;
  std::optional<Clock::time_point> slept_;
};

}  // namespace turnbox::vhost
