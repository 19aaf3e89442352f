// One live sandbox: runtime directory, users, turnbox-fsd, turnbox-vsockd and the virtual machine, started
// and ended as one.
//
// Owned by whoever runs the demand; used from one thread (a thread of its own starts the machine while the
// owner goes on, and is joined by await_guest() and end()). Ending, whether asked or by destruction, leaves
// no process, socket, file or domain. The processes of a killed owner are cleared by reconcile.h.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "broker/demand/places.h"
#include "broker/demand/runtime_dir.h"
#include "broker/demand/user_slot.h"
#include "fs/control/client.h"
#include "vmm/domain/connection.h"
#include "vmm/domain/domain.h"
#include "vmm/domain/tier.h"
#include "vmm/image/image.h"
#include "vmm/sys/process.h"

namespace turnbox::demand {

struct SandboxSpec {
  std::string id;  // the demand's name
  domain::Tier tier = domain::Tier::emulated;
  image::Image image;  // verified
  unsigned memory_mib = 512;
  unsigned vcpus = 1;
  std::string connect;  // libvirt URI; empty: the embedded driver
};

class Sandbox {
 public:
  // Makes the directory and the sockets and starts both daemons; the machine is not started yet.
  // `before_processes` is called once the directory is locked and before anything is started in it.
  static sys::Result<std::unique_ptr<Sandbox>> create(
      const Places& places, const SandboxSpec& spec,
      const std::function<sys::Status(const std::string& runtime_dir)>& before_processes);
  ~Sandbox();

  // Starts the machine on a thread of its own and returns at once.
  void launch();
  // Waits until the guest answered on its exec port and has the host's clock. Errors name what died, or the
  // deadline, with the console's last lines. Kind conflict: `cancelled` became true.
  sys::Status await_guest(std::chrono::milliseconds deadline, const std::function<bool()>& cancelled);

  control::Client& files() { return *files_; }
  const std::string& vsock_path() const { return vsock_path_; }
  const std::string& runtime_dir() const { return dir_.path(); }

  // Readable as soon as a part of the sandbox died; trouble() says which, in one sentence.
  int trouble_fd() const { return trouble_.get(); }
  std::optional<std::string> trouble();
  // False once turnbox-fsd ended; a socket that broke is told a moment before the death that broke it.
  bool files_alive(std::chrono::milliseconds wait = {}) { return !fsd_.wait_for(wait).has_value(); }

  pid_t fsd_pid() const { return fsd_.pid(); }
  pid_t vsockd_pid() const { return vsockd_.pid(); }
  pid_t qemu_pid() const { return domain_ ? domain_->qemu_pid() : 0; }

  // Ends the machine only; the file system can still be asked. May run on another thread while the owner uses
  // files().
  sys::Status end_machine();
  // Ends the rest. The first thing that would not go is the error; everything else is gone all the same.
  sys::Status end();

 private:
  Sandbox(const Places& places, SandboxSpec spec, RuntimeDir dir, std::optional<UserSlot> users);
  sys::Status start_fsd();
  sys::Status start_vsockd();
  sys::Status start_machine();
  sys::Result<sys::Fd> device_socket(const std::string& name);
  sys::Status join_starter();
  bool daemon_killed();
  std::optional<std::string> machine_trouble();
  sys::Status watch(int fd);
  tl::unexpected<sys::Error> boot_error(std::string text) const;

  const Places places_;
  const SandboxSpec spec_;
  RuntimeDir dir_;
  std::optional<UserSlot> users_;
  std::string vsock_path_;
  sys::Fd trouble_;  // an epoll of everything whose end is trouble
  sys::Process fsd_, vsockd_;
  sys::Fd dial_;
  std::optional<control::Client> files_;
  std::unique_ptr<domain::Connection> connection_;
  std::unique_ptr<domain::Domain> domain_;
  std::atomic<domain::Domain*> starting_{nullptr};  // for kill() while start() blocks in the starter
  std::thread starter_;
  sys::Fd started_;  // an eventfd: the starter is done
  sys::Status start_status_;
  std::atomic<bool> machine_ended_{false};  // end_machine() may run beside files()
};

}  // namespace turnbox::demand
