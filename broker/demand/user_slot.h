// Users of a sandbox's processes: three numeric ids that no other live sandbox has, and no account of the
// host.
//
// As root, a slot k is held by a lock on `<slots>/<k>`, and the processes run as kFirstUid + 3k
// (turnbox-fsd),
// + 1 (turnbox-vsockd) and + 2 (QEMU). Others cannot change users: everything runs as the caller, and says
// so.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "vmm/sys/fd.h"

namespace turnbox::demand {

// Above every range that Debian, systemd (DynamicUser, nspawn, homed) and shadow's subuids give out by
// default.
inline constexpr uid_t kFirstUid = 1'879'048'192;  // 0x70000000
inline constexpr unsigned kSlots = 65'536;

class UserSlot {
 public:
  // The first free slot below `directory` (made if missing). Empty for a caller who is not root.
  static sys::Result<std::optional<UserSlot>> take(const std::string& directory);

  uid_t fsd() const { return kFirstUid + 3 * slot_; }
  uid_t vsockd() const { return fsd() + 1; }
  uid_t qemu() const { return fsd() + 2; }

 private:
  UserSlot(unsigned slot, sys::Fd lock) : slot_(slot), lock_(std::move(lock)) {}
  unsigned slot_;
  sys::Fd lock_;
};

}  // namespace turnbox::demand
