// Tiers: how a sandbox's CPU is had, and whether this host can give the better one.
//
// The decision is a pure function of facts, so that every host can be tried in a unit test; probe_hardware()
// gathers the facts. libvirt's own idea of KVM never matters. A tier that was asked for is never lowered.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "vmm/sys/result.h"

namespace turnbox::domain {

enum class Tier : uint8_t { emulated, hardware };  // TCG, KVM

std::string_view name_of(Tier tier);
sys::Result<Tier> tier_named(std::string_view name);  // kind usage

// What was seen of /dev/kvm and the CPU. The errno fields are 0 when the step worked, and steps after a
// failed one are not tried.
struct HardwareFacts {
  int open_errno = 0;    // opening /dev/kvm for reading and writing
  int api_version = -1;  // KVM_GET_API_VERSION
  int create_vm_errno = 0;
  bool cpu_vmx_or_svm = false;
  gid_t kvm_group = 0;  // owner group of /dev/kvm, and whether that group may use it
  bool group_may_use = false;
  bool others_may_use = false;
};

HardwareFacts probe_hardware();

struct HardwareVerdict {
  bool usable = false;
  std::string reason;  // one sentence, whichever way it went
  std::string remedy;  // empty when usable or when nothing can be done
};

HardwareVerdict judge_hardware(const HardwareFacts& facts);

// Asked, or the best the host has. Kind refused, with reason and remedy, for hardware that cannot be had.
sys::Result<Tier> choose_tier(std::optional<Tier> asked, const HardwareFacts& facts);

// The group that QEMU's own user needs for /dev/kvm; empty when none helps (emulated tier, or everybody may
// use it).
std::optional<gid_t> kvm_group_for(Tier tier, const HardwareFacts& facts);

}  // namespace turnbox::domain
