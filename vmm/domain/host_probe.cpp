#include "vmm/domain/host_probe.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vmm/domain/connection.h"
#include "vmm/sys/fd.h"
#include "vmm/sys/memfd.h"
#include "vmm/sys/process.h"

namespace turnbox::domain {
namespace {

using namespace std::chrono_literals;

constexpr const char* kQemu = "/usr/bin/qemu-system-x86_64";

bool qemu_present() {
  return ::access(kQemu, X_OK) == 0;
}

// QEMU prints a device's properties and ends with 0, or does not know it.
bool qemu_has_device(const std::string& device) {
  sys::Spawn spawn;
  spawn.program = kQemu;
  spawn.argv = {kQemu, "-machine", "microvm,accel=tcg", "-device", device + ",help"};
  const auto null = sys::open_fd("/dev/null", O_WRONLY);
  if (!null) return false;
  spawn.fds = {{null->get(), 2}};
  auto process = sys::Process::spawn(spawn);
  if (!process) return false;
  const auto exit = process->wait_for(10s);
  return exit && !exit->signalled && exit->code == 0;
}

Probe qemu_probe() {
  if (!qemu_present()) {
    return {"qemu", ProbeState::fail, std::string(kQemu) + " is not there",
            "apt-get install qemu-system-x86"};
  }
  for (const char* device : {"virtio-blk-device", "vhost-user-fs-device"}) {
    if (qemu_has_device(device)) continue;
    return {"qemu", ProbeState::fail, "QEMU's machine microvm has no " + std::string(device),
            "install qemu-system-x86 7.2 or newer"};
  }
  return {"qemu", ProbeState::ok, std::string(kQemu) + " has the machine microvm and its devices", ""};
}

Probe libvirt_probe(const ProbePlaces& places) {
  EmbedOptions options;
  options.root = places.scratch + "/v";
  options.cache_dir = places.cache_dir;
  auto connection = Connection::open_embedded(options);
  if (!connection) {
    std::string remedy;
    if (connection.error().text.find("no connection driver") != std::string::npos) {
      remedy = "apt-get install libvirt-daemon-driver-qemu";
    }
    return {"libvirt", ProbeState::fail, connection.error().text, remedy};
  }
  auto libvirt = (*connection)->libvirt_version();
  auto qemu = (*connection)->qemu_version();
  return {"libvirt", ProbeState::ok,
          "libvirt " + libvirt.value_or("of unknown version") + " runs embedded, with QEMU " +
              qemu.value_or("of unknown version"),
          ""};
}

Probe vsock_probe() {
  const auto daemon = sys::sibling_program("turnbox-vsockd");
  if (!daemon) return {"vsock", ProbeState::fail, daemon.error().text, ""};
  if (!qemu_present() || !qemu_has_device("vhost-user-vsock-device")) {
    return {"vsock", ProbeState::fail, "QEMU has no vhost-user-vsock-device",
            "install qemu-system-x86 7.2 or newer"};
  }
  return {"vsock", ProbeState::ok, "in user mode, by turnbox-vsockd; the kernel's vhost-vsock is not used",
          ""};
}

Probe fuse_probe() {
  const sys::Fd fuse(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (fuse) return {"fuse", ProbeState::ok, "/dev/fuse can be opened", ""};
  const bool missing = errno == ENOENT || errno == ENXIO || errno == ENODEV;
  return {"fuse", ProbeState::warn,
          missing ? "there is no usable /dev/fuse; sandboxes do not need it, mounts on this host would"
                  : "this user may not open /dev/fuse; sandboxes do not need it, mounts on this host would",
          missing ? "modprobe fuse" : "allow reading and writing of /dev/fuse"};
}

// Whether a child of ours can give itself the namespaces that sys::confine makes.
bool namespaces_work() {
  const pid_t child = ::fork();
  if (child == 0) {
    const int user = ::geteuid() == 0 ? 0 : CLONE_NEWUSER;
    ::_exit(::unshare(user | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) == 0 ? 0 : 1);
  }
  int status = 1;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

Probe kernel_probe() {
  utsname name{};
  ::uname(&name);
  const std::string release = std::string("Linux ") + name.release;
  if (std::string_view(name.machine) != "x86_64") {
    return {"kernel", ProbeState::fail, release + " on " + name.machine, "use an x86_64 host"};
  }
  const auto memfd = sys::make_memfd("probe", 4096);
  if (!memfd || !sys::seal_memfd(memfd->get())) {
    return {"kernel", ProbeState::fail, release + " has no memory files that can be sealed",
            "use Linux 5.10 or newer"};
  }
  const sys::Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!pidfd) return {"kernel", ProbeState::fail, release + " has no pidfd_open", "use Linux 5.10 or newer"};
  if (!namespaces_work()) {
    if (::geteuid() == 0) {
      return {"kernel", ProbeState::fail, release + " does not let root make namespaces",
              "in a container: give it CAP_SYS_ADMIN"};
    }
    return {"kernel", ProbeState::warn,
            release + " lets this user make no namespaces: the device processes run without an empty root",
            "sysctl kernel.unprivileged_userns_clone=1 (Debian), or run turnbox as root"};
  }
  const long landlock = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return {"kernel", ProbeState::ok,
          release + " has sealed memory files, pidfds and namespaces" +
              (landlock > 0 ? ", landlock " + std::to_string(landlock) : std::string()),
          ""};
}

}  // namespace

std::string_view name_of(ProbeState state) {
  switch (state) {
    case ProbeState::ok:
      return "ok";
    case ProbeState::warn:
      return "warn";
    case ProbeState::fail:
      return "fail";
  }
  return "unknown";
}

Probe tiers_probe(const HardwareFacts& facts, bool qemu_is_there) {
  if (!qemu_is_there) return {"tiers", ProbeState::fail, "neither tier can be had without QEMU", ""};
  if (judge_hardware(facts).usable) {
    return {"tiers", ProbeState::ok, "hardware is given by default; emulated can be asked for", ""};
  }
  return {"tiers", ProbeState::ok, "emulated is given by default; hardware is refused (see kvm)", ""};
}

Probe kvm_probe(const HardwareFacts& facts) {
  auto verdict = judge_hardware(facts);
  return {"kvm", verdict.usable ? ProbeState::ok : ProbeState::warn, std::move(verdict.reason),
          std::move(verdict.remedy)};
}

std::vector<Probe> probe_host(const ProbePlaces& places) {
  const HardwareFacts facts = probe_hardware();
  std::vector<Probe> probes;
  probes.push_back(tiers_probe(facts, qemu_present()));
  probes.push_back(kvm_probe(facts));
  probes.push_back(qemu_probe());
  probes.push_back(libvirt_probe(places));
  probes.push_back(vsock_probe());
  probes.push_back(fuse_probe());
  probes.push_back(kernel_probe());
  return probes;
}

}  // namespace turnbox::domain
