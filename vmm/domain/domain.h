// Domain: the life of one sandbox's virtual machine, from «not started» to «ended», once.
//
// Owned by whoever runs the sandbox; the Connection outlives it. start() and destroy() block; kill() and the
// questions may come from any thread. The end is told once, through ended_fd(), whatever brought it: the
// guest powered off or reset (a panicking kernel resets, see kernel_args.h), QEMU died, or destroy().
// Destroying the object destroys the machine.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "vmm/domain/connection.h"
#include "vmm/domain/console.h"
#include "vmm/domain/spec.h"
#include "vmm/sys/fd.h"

struct _virDomain;

namespace turnbox::domain {

enum class EndReason : uint8_t {
  powered_off,  // the guest switched itself off
  reset,        // the guest reset itself: reboot, or a kernel panic
  destroyed,    // by destroy() or the connection's close
  qemu_died,    // QEMU ended without being asked: killed, or crashed
};

std::string_view name_of(EndReason reason);

class Domain {
 public:
  // Checks the spec and makes the console socket. Nothing runs yet.
  static sys::Result<std::unique_ptr<Domain>> create(Connection& connection, const DomainSpec& spec);
  ~Domain();

  // Starts QEMU and the guest's first instruction; the peers of the spec's sockets must be serving. When it
  // fails nothing runs. QEMU is killed when it is not up after `deadline` (a socket's peer that does not
  // answer holds it for ever).
  sys::Status start(std::chrono::milliseconds deadline = std::chrono::seconds(30));
  // Ends the machine at once and waits until QEMU is gone; libvirt's own tidying (up to 0.2 s) is left to the
  // destructor. Harmless when it has ended or never started.
  sys::Status destroy();
  // SIGKILL to QEMU; also makes a start() in another thread fail. Embedded connections only.
  sys::Status kill();

  pid_t qemu_pid() const { return pid_; }          // 0 before start
  int qemu_pidfd() const { return pidfd_.get(); }  // readable once QEMU's process is gone; -1 before start
  int ended_fd() const;  // an eventfd, readable (and left so) once the machine has ended
  std::optional<EndReason> ended() const;
  std::optional<EndReason> wait_ended(std::chrono::milliseconds timeout) const;

  // The console's last lines; empty without a console socket.
  std::string console_tail(size_t lines = 20) const;
  // QEMU's own last words on its standard error, for a start that failed. Embedded connections only.
  std::string qemu_log_tail(size_t lines = 5) const;

 private:
  struct Watch;  // shared with libvirt's callbacks
  Domain(Connection& connection, DomainSpec spec, std::string xml, std::shared_ptr<Watch> watch);
  sys::Status register_events();
  sys::Status learn_pid();
  sys::Status reap_at_end();
  sys::Status kill_and_reap();
  sys::Status forget();

  Connection& connection_;
  const DomainSpec spec_;
  const std::string xml_;
  std::unique_ptr<Console> console_;
  std::shared_ptr<Watch> watch_;
  int lifecycle_id_ = -1;
  int shutdown_id_ = -1;
  _virDomain* domain_ = nullptr;
  pid_t pid_ = 0;
  sys::Fd pidfd_;
};

}  // namespace turnbox::domain
