// The guest kernel's command line: pure composition. Words for turnbox-init come from vmm/guest and are
// handed in.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "vmm/domain/tier.h"

namespace turnbox::domain {

struct KernelArgs {
  Tier tier = Tier::emulated;
  std::optional<uint64_t> tsc_khz;  // the host's, for the emulated tier; see host_tsc_khz()
  bool quiet = true;                // kernel messages below «error» stay off the console
  std::vector<std::string> init;    // words after «--», which the kernel hands to /init as its arguments
  std::vector<std::string> extra;   // further kernel words
};

// console=ttyS0; a panicking guest resets at once, which ends its QEMU. Under TCG `tsc_early_khz` is needed:
// without it about one microvm boot in three hangs after «Marking TSC unstable»
// (docs/decisions/0160-domain-shape.md).
std::string kernel_command_line(const KernelArgs& args);

// The rate of the host's time stamp counter, which is what a TCG guest reads, measured against the monotonic
// clock for `span` (its error is about 100 ns / span). Not «cpu MHz» of /proc/cpuinfo: that follows frequency
// scaling. Empty when what was measured is out of reason.
std::optional<uint64_t> host_tsc_khz(std::chrono::milliseconds span = std::chrono::milliseconds(4));
std::optional<uint64_t> tsc_khz_of(uint64_t ticks, std::chrono::nanoseconds span);

}  // namespace turnbox::domain
