#include "vmm/sys/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>

namespace turnbox::sys {

void start_log(const std::string& name) {
  auto logger = spdlog::stderr_logger_mt(name);
  spdlog::set_default_logger(logger);
  spdlog::set_pattern("%n: %l: %v");
  const char* level = std::getenv("TURNBOX_LOG");
  spdlog::set_level(level != nullptr ? spdlog::level::from_str(level) : spdlog::level::warn);
  spdlog::flush_on(spdlog::level::debug);
}

bool LogLimit::pass(Clock::time_point now) {
  if (last_ != Clock::time_point{}) {
    const double passed = std::chrono::duration<double>(now - last_).count();
    tokens_ = std::min<double>(burst_, tokens_ + std::max(0.0, passed) * per_second_);
  }
  last_ = now;
  if (tokens_ < 1) {
    ++suppressed_;
    return false;
  }
  tokens_ -= 1;
  return true;
}

uint64_t LogLimit::take_suppressed() {
  return std::exchange(suppressed_, 0);
}

}  // namespace turnbox::sys
