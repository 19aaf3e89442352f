// QEMU processes of a runtime directory, found without libvirt: for cleaning up after an owner that was
// killed.
//
// libvirt puts paths of the directory on QEMU's command line (monitor, secrets, sockets), capability probes
// included, so the kernel's own list of processes is the register: nothing has to be written before a start,
// and no moment of a start escapes it. (Between libvirt's fork and QEMU's exec the child waits for a
// handshake from the owner and ends without one.) The caller holds the lock of the directory.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "vmm/sys/fd.h"

namespace turnbox::domain {

struct QemuProcess {
  pid_t pid;
  sys::Fd
      pidfd;  // of the process whose command line was read: a later process of the same number is another one
};

// Every process that is a QEMU by its program's name and has an argument naming a path below `dir`. `dir` is
// absolute, without a slash at the end and without symbolic links.
sys::Result<std::vector<QemuProcess>> find_qemu_below(const std::string& dir);

// SIGKILL to each, then waits until all are gone (they may be nobody's children). The number killed. Kind
// unavailable when one is still there after `timeout`.
sys::Result<size_t> kill_qemu_below(const std::string& dir,
                                    std::chrono::milliseconds timeout = std::chrono::seconds(10));

// The same for the one whose machine is called `name`, as libvirt starts it.
sys::Result<size_t> kill_qemu_named(const std::string& dir, const std::string& name,
                                    std::chrono::milliseconds timeout = std::chrono::seconds(10));

// SIGKILL to every process whose real user is `uid`, then waits until all are gone; the number killed. For a
// user that belongs to one sandbox (as root): a QEMU that its guest took over can rewrite its own command
// line, not its user. Call it before such a user is given out again.
sys::Result<size_t> kill_processes_of(uid_t uid,
                                      std::chrono::milliseconds timeout = std::chrono::seconds(10));

// Reaps children of this process that are a detached QEMU and have ended; any other child is left to its
// owner. A QEMU that libvirt or itself detached becomes our child when this process is a «child subreaper»
// (Connection makes it one). The number reaped.
size_t reap_dead_qemu();

// The decision, for tests: argv as in /proc/PID/cmdline (NUL after each argument).
bool is_qemu_below(std::string_view cmdline, std::string_view dir);
bool is_qemu_named(std::string_view cmdline, std::string_view name);

}  // namespace turnbox::domain
