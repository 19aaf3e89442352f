// How a device process gives up what it does not need, in named stages. Linux only.
//
// Called once from main, single-threaded, after the last library initialisation that needs a path and before
// the first byte of a peer is read. Afterwards the process has: the descriptors it was given, memory, and its
// event loop.
//   stage 1  own user      setgroups, setresgid, setresuid to the given ids (as root only)
//   stage 2  empty root    new mount, network, ipc and uts namespaces; the root is an empty read-only tmpfs
//                          (in a user namespace of its own when not root; see Confinement::root)
//   stage 3  no way back   no capabilities in any set, no-new-privileges, not dumpable, no core files
//   stage 4  few calls     seccomp: sockets, exec, fork, ptrace, mount, new namespaces and the like answer EPERM;
//                          threads can still be made
// A parent-death signal (process.h) that was armed stays armed, which a change of ids alone would undo.
// A stage that cannot be had is an error, except stage 1 and 2 for an unprivileged caller, whose absence is
// returned so that the caller can print it.
#pragma once

#include <sys/types.h>

#include "vmm/sys/result.h"

namespace turnbox::sys {

struct Confine {
  uid_t uid = 0;  // 0: keep the caller's
  gid_t gid = 0;
};

// What was reached.
struct Confinement {
  bool own_user = false;
  bool empty_root = false;
};

Result<Confinement> confine(const Confine& what);

}  // namespace turnbox::sys
