// What this host can do for turnbox, probed by doing it: the machine's half of `turnbox doctor`.
//
// Each probe says what was found in one sentence, and what to do about it. `fail` means that no sandbox can
// run until it is mended; `warn` that something is not to be had and everything else works. Nothing is
// changed but the scratch directory, which the caller owns.
#pragma once

#include <string>
#include <vector>

#include "vmm/domain/tier.h"
#include "vmm/sys/result.h"

namespace turnbox::domain {

enum class ProbeState : uint8_t { ok, warn, fail };

std::string_view name_of(ProbeState state);

struct Probe {
  std::string name;  // one word
  ProbeState state = ProbeState::ok;
  std::string reason;
  std::string remedy;  // empty: nothing to do, or nothing that can be done
};

struct ProbePlaces {
  std::string scratch;    // an existing private directory, at most kLongestRoot - 2 bytes
  std::string cache_dir;  // as EmbedOptions::cache_dir
};

// In a fixed order: tiers, kvm, qemu, libvirt, vsock, fuse, kernel. Opens (and closes) this process's libvirt
// connection.
std::vector<Probe> probe_host(const ProbePlaces& places);

// The pure parts.
Probe tiers_probe(const HardwareFacts& facts, bool qemu_present);
Probe kvm_probe(const HardwareFacts& facts);

}  // namespace turnbox::domain
