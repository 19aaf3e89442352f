// DomainSpec: what one sandbox's virtual machine is made of, and its libvirt XML.
//
// Pure: no libvirt, no host. tests/golden/domain/*.xml hold the text byte for byte; a change of a machine's
// shape is a change of a golden file. The shape (docs/decisions/0160-domain-shape.md): machine microvm, every
// device on virtio-mmio, guest memory in a sealed memfd that the two device processes map, no network device,
// no PCI, no USB.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "vmm/domain/tier.h"
#include "vmm/sys/result.h"

namespace turnbox::domain {

struct QemuUser {
  uid_t uid = 0;
  gid_t gid = 0;
};

struct DomainSpec {
  std::string name;  // [a-z0-9-], at most 40 characters; libvirt puts it into socket paths
  std::string uuid;  // empty: libvirt makes one
  Tier tier = Tier::emulated;
  uint64_t memory_mib = 0;
  unsigned vcpus = 1;

  std::string kernel;  // host paths, readable for QEMU's user
  std::string initramfs;
  std::string cmdline;  // from kernel_args.h

  // Each may be empty, and then the device is left out.
  std::string root_image;        // erofs image, read-only: /dev/vda
  std::string workspace_socket;  // vhost-user-fs, tag «workspace»
  std::string turn_socket;       // vhost-user-fs, tag «turn»
  std::string vsock_socket;      // vhost-user-vsock
  std::string console_socket;    // QEMU connects here and writes the serial console (console.h listens)
  std::string console_log;       // or: a file QEMU writes; unbounded, so only where nothing else can be had

  std::optional<QemuUser> qemu_user;  // QEMU's own user for this domain (root only)
};

inline constexpr uint64_t kLeastMemoryMib = 128;  // below, Debian's kernel does not reach its init
inline constexpr uint64_t kMostMemoryMib = 1024 * 1024;
inline constexpr unsigned kMostVcpus = 64;

// Kind invalid names the field: a name out of its alphabet, memory or vcpus out of range, a path that is not
// absolute, or text that XML 1.0 cannot carry (control characters, bytes that are not UTF-8).
sys::Result<std::string> to_xml(const DomainSpec& spec);

}  // namespace turnbox::domain
