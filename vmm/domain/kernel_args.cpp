#include "vmm/domain/kernel_args.h"

#include <x86intrin.h>

#include <cmath>
#include <thread>

namespace turnbox::domain {

std::string kernel_command_line(const KernelArgs& args) {
  // reboot=t: the reset after a panic is a triple fault, which needs no device that a broken guest may have
  // lost.
  std::string line = "console=ttyS0 panic=-1 reboot=t";
  if (args.quiet) line += " quiet";
  if (args.tier == Tier::emulated && args.tsc_khz) line += " tsc_early_khz=" + std::to_string(*args.tsc_khz);
  for (const auto& word : args.extra) line += " " + word;
  if (!args.init.empty()) line += " --";
  for (const auto& word : args.init) line += " " + word;
  return line;
}

std::optional<uint64_t> tsc_khz_of(uint64_t ticks, std::chrono::nanoseconds span) {
  if (span.count() <= 0) return std::nullopt;
  const double khz = static_cast<double>(ticks) * 1e6 / static_cast<double>(span.count());
  if (!(khz >= 100'000 && khz <= 20'000'000)) return std::nullopt;
  return static_cast<uint64_t>(std::llround(khz));
}

std::optional<uint64_t> host_tsc_khz(std::chrono::milliseconds span) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const uint64_t first = __rdtsc();
  std::this_thread::sleep_for(span);
  const auto end = Clock::now();
  const uint64_t last = __rdtsc();
  return tsc_khz_of(last - first, end - start);
}

}  // namespace turnbox::domain
