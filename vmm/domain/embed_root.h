// EmbedRoot: the private directory of one libvirt driver that lives in this process (qemu:///embed?root=DIR).
//
// It holds the driver's configuration, sockets, logs and state, belongs to one process, and goes with this
// object. Deleting it is all the clean-up it needs; a dead one is deleted, never opened again (a second
// process that opens the root of a running domain ends that domain when it closes, and libvirt 9.0 crashes).
//
// The capabilities cache is shared between roots by copying, in both directions through a rename: libvirt
// writes its cache files in place and deletes those it finds outdated, so roots must not share the files
// themselves.
#pragma once

#include <optional>
#include <string>

#include "vmm/domain/spec.h"
#include "vmm/sys/result.h"

namespace turnbox::domain {

struct EmbedOptions {
  std::string root;  // absolute; made here, must not exist; at most kLongestRoot bytes
  std::string
      cache_dir;  // shared capabilities cache, made if missing; empty: none, QEMU is probed (about 1 s)
  Tier tier =
      Tier::emulated;  // caches are kept apart by tier, since libvirt drops a cache whose view of KVM differs
  std::optional<QemuUser> user;  // who passes through to QEMU's files (as root only): DomainSpec::qemu_user
};

// libvirt appends up to 52 bytes for QEMU's monitor socket (107 at most).
inline constexpr size_t kLongestRoot = 55;

class EmbedRoot {
 public:
  static sys::Result<EmbedRoot> make(const EmbedOptions& options);
  EmbedRoot(EmbedRoot&& other) noexcept;
  EmbedRoot& operator=(EmbedRoot&&) = delete;
  ~EmbedRoot();  // deletes the directory

  const std::string& path() const { return options_.root; }
  std::string uri() const;
  std::string pid_file(const std::string& domain) const;  // written by libvirt
  std::string qemu_log(const std::string& domain) const;  // QEMU's own standard error

  // Copies a capabilities file that is new or changed to the shared cache. Trouble costs time at the next
  // start and nothing else.
  void save_cache() const;

 private:
  explicit EmbedRoot(EmbedOptions options) : options_(std::move(options)) {}
  EmbedOptions options_;  // root empty: moved from
};

// qemu.conf of an embed root, for tests.
std::string qemu_conf(bool privileged);

}  // namespace turnbox::domain
