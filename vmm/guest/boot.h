// From the initramfs to a guest that can run commands: modules, mounts, the root, the listener.
//
// Called by PID 1 only, once, in the order of main.cpp. Every error is one sentence for the console; the
// caller powers off. The initramfs holds /init, /modules/<file>… and /modules/list (file names, one a line,
// in loading order).
#pragma once

#include <cstdint>
#include <string>

#include "vmm/sys/fd.h"

namespace turnbox::guest {

struct BootOptions {
  uint32_t epoch = 1;                // turnbox.epoch=N: the workspace's first epoch
  std::string hostname = "turnbox";  // turnbox.hostname=NAME
};
sys::Result<BootOptions> parse_command_line(
    std::string_view line);  // unknown words are the kernel's, not ours

sys::Status mount_early();                               // /dev /proc
sys::Result<BootOptions> read_command_line();            // /proc/cmdline
sys::Status load_modules();                              // and removes them from the initramfs
sys::Result<sys::Fd> listen_for_host();                  // vsock, kExecPort
sys::Status mount_root(const BootOptions& options);      // erofs below, tmpfs above; virtiofs; switches to it
sys::Status finish_machine(const BootOptions& options);  // host name, loopback, limits

// What Machine needs from here.
sys::Status set_clock(int64_t clock_ns);
sys::Status bind_workspace(uint32_t epoch);
bool flush_devices();  // syncfs of /workspace and /turn; false when either failed
sys::Result<sys::Fd> accept_host(sys::Fd& listener);  // an empty Fd for a peer that is not the host

inline constexpr const char* kWorkspace = "/workspace";
inline constexpr const char* kTurn = "/turn";

}  // namespace turnbox::guest
