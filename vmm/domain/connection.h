// Connection: this process's one connection to libvirt, with libvirt's event loop on a thread of its own.
//
// Owned by main (or the broker). libvirt keeps process-wide state: a second connection while the first lives
// is refused, and so is a second embedded one in the life of a process; one connection carries any number of
// domains. Calls block and may come from any thread; callbacks run on the event thread. Closing a connection
// ends every domain that it started, then the loop, then the embed root. libvirt writes nothing to stderr:
// its errors become sys::Error, its own log goes to a file in the embed root.
//
// An embedded connection makes this process a «child subreaper»: QEMU, which libvirt detaches, becomes our
// child when it is orphaned, and is reaped here at once. libvirt takes a zombie for a live process, so with
// an init that reaps lazily (containers) each end of a machine would wait for it. Other orphans of the
// process stay zombies until it ends.
//
// Embedded or not: under `qemu:///embed` the driver, and so the domains, end with this process, and a killed
// owner leaves a QEMU that leftover.h finds. Under another URI (qemu:///system) libvirtd owns QEMU and its
// directories: it ends the domains of a killed client by itself (auto-destroy), and the sockets' directory
// must be open to QEMU's user (DomainSpec, else libvirtd's default) and, with AppArmor, to its profile.
// Domain::kill is not to be had there.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "vmm/domain/embed_root.h"
#include "vmm/sys/result.h"

struct _virConnect;

namespace turnbox::domain {

class Connection {
 public:
  // Makes the embed root, starts the driver in this process, and lets it learn what QEMU can do (or read the
  // cache).
  static sys::Result<std::unique_ptr<Connection>> open_embedded(const EmbedOptions& options);
  static sys::Result<std::unique_ptr<Connection>> open(const std::string& uri);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const std::string& uri() const { return uri_; }
  bool embedded() const { return root_.has_value(); }
  const EmbedRoot* root() const { return root_ ? &*root_ : nullptr; }
  _virConnect* raw() const { return conn_; }  // for vmm/domain only

  // «9.0.0» of the driver, and of the QEMU it would run.
  sys::Result<std::string> libvirt_version() const;
  sys::Result<std::string> qemu_version() const;
  // Whether machine `microvm` and `tier`'s domain type are known to libvirt for x86_64.
  sys::Status check_microvm(Tier tier) const;

 private:
  Connection(std::string uri, std::optional<EmbedRoot> root);
  sys::Status connect();
  void run_loop();

  std::string uri_;
  std::optional<EmbedRoot> root_;
  _virConnect* conn_ = nullptr;
  std::atomic<bool> stop_{false};
  std::thread loop_;
};

// Reaps QEMU every 10 ms on a thread of its own while it lives: for the libvirt calls that start a QEMU and
// may have to wait for its end.
class ReapWhile {
 public:
  ReapWhile();
  ~ReapWhile();
  ReapWhile(const ReapWhile&) = delete;
  ReapWhile& operator=(const ReapWhile&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  bool finished_ = false;  // under mutex_
  std::thread thread_;
};

// The calling thread's last libvirt error, with «WHAT: » in front.
tl::unexpected<sys::Error> fail_libvirt(std::string_view what);

}  // namespace turnbox::domain
