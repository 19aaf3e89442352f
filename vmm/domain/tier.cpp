#include "vmm/domain/tier.h"

#include <fcntl.h>
#include <linux/kvm.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "vmm/sys/fd.h"

namespace turnbox::domain {
namespace {

using sys::ErrorKind;

bool cpu_shows_virtualisation() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line;
  while (std::getline(cpuinfo, line)) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line);
    std::string word;
    while (words >> word) {
      if (word == "vmx" || word == "svm") return true;
    }
    return false;
  }
  return false;
}

}  // namespace

std::string_view name_of(Tier tier) {
  return tier == Tier::hardware ? "hardware" : "emulated";
}

sys::Result<Tier> tier_named(std::string_view name) {
  if (name == "hardware") return Tier::hardware;
  if (name == "emulated") return Tier::emulated;
  return sys::fail(ErrorKind::usage,
                   "there is no tier «" + std::string(name) + "»; say hardware or emulated");
}

HardwareFacts probe_hardware() {
  HardwareFacts facts;
  facts.cpu_vmx_or_svm = cpu_shows_virtualisation();
  struct stat st;
  if (::stat("/dev/kvm", &st) == 0) {
    facts.kvm_group = st.st_gid;
    facts.group_may_use = (st.st_mode & 0060) == 0060;
    facts.others_may_use = (st.st_mode & 0006) == 0006;
  }
  const sys::Fd kvm(::open("/dev/kvm", O_RDWR | O_CLOEXEC));
  if (!kvm) {
    facts.open_errno = errno;
    return facts;
  }
  facts.api_version = ::ioctl(kvm.get(), KVM_GET_API_VERSION, 0);
  if (facts.api_version != KVM_API_VERSION) return facts;
  const sys::Fd vm(::ioctl(kvm.get(), KVM_CREATE_VM, 0));
  if (!vm) facts.create_vm_errno = errno;
  return facts;
}

HardwareVerdict judge_hardware(const HardwareFacts& facts) {
  if (facts.open_errno == ENOENT || facts.open_errno == ENXIO || facts.open_errno == ENODEV) {
    if (facts.cpu_vmx_or_svm) {
      return {false, "the CPU can virtualise, but there is no usable /dev/kvm",
              "load the kernel module kvm_intel or kvm_amd"};
    }
    return {false, "there is no /dev/kvm, and the CPU shows neither vmx nor svm",
            "use a host with hardware virtualisation, or switch it on in the firmware (in a virtual machine: "
            "nested "
            "virtualisation)"};
  }
  if (facts.open_errno == EACCES || facts.open_errno == EPERM) {
    return {false, "/dev/kvm is there, but this user may not use it",
            "add the user to the group that owns /dev/kvm (usually kvm) and log in again"};
  }
  if (facts.open_errno != 0) {
    return {false, std::string("/dev/kvm cannot be opened: ") + std::strerror(facts.open_errno), ""};
  }
  if (facts.api_version != KVM_API_VERSION) {
    return {false, "/dev/kvm speaks API version " + std::to_string(facts.api_version) + ", not 12",
            "use a Linux kernel whose KVM speaks version 12"};
  }
  if (facts.create_vm_errno != 0) {
    return {false, std::string("/dev/kvm cannot create a machine: ") + std::strerror(facts.create_vm_errno),
            "see the kernel's log; another hypervisor may hold the CPU's virtualisation"};
  }
  if (!facts.cpu_vmx_or_svm) {
    return {false,
            "/dev/kvm is there, but the CPU shows neither vmx nor svm: KVM here is not backed by hardware "
            "virtualisation",
            "use a host with hardware virtualisation (in a virtual machine: nested virtualisation)"};
  }
  return {true, "/dev/kvm works and the CPU virtualises", ""};
}

sys::Result<Tier> choose_tier(std::optional<Tier> asked, const HardwareFacts& facts) {
  if (asked == Tier::emulated) return Tier::emulated;
  const HardwareVerdict verdict = judge_hardware(facts);
  if (verdict.usable) return Tier::hardware;
  if (!asked) return Tier::emulated;
  std::string text = "the hardware tier cannot be had: " + verdict.reason;
  if (!verdict.remedy.empty()) text += "; " + verdict.remedy;
  return sys::fail(ErrorKind::refused, text + ", or ask for --tier emulated");
}

std::optional<gid_t> kvm_group_for(Tier tier, const HardwareFacts& facts) {
  if (tier != Tier::hardware || facts.others_may_use || !facts.group_may_use) return std::nullopt;
  return facts.kvm_group;
}

}  // namespace turnbox::domain
