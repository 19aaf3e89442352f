// Console: the guest's serial console, kept as its last 64 KiB.
//
// QEMU connects to a unix socket of ours (DomainSpec::console_socket) instead of writing a file, so that a
// guest that prints for ever costs a fixed amount of memory and no disk. Owns one thread, which ends with the
// object. `tail()` may be called from any thread. The first peer only is taken, and only if its user is the
// expected one.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "vmm/sys/fd.h"

namespace turnbox::domain {

class Console {
 public:
  // Makes the socket at `path`, owned by `peer` where given (needs root), mode 0600.
  static sys::Result<std::unique_ptr<Console>> listen(const std::string& path, std::optional<uid_t> peer);
  ~Console();  // also unlinks the socket

  // The last `lines` lines, made safe to print: control characters other than newline and tab are left out.
  std::string tail(size_t lines) const;

 private:
  Console(std::string path, sys::Fd listener, sys::Fd stop, uid_t peer);
  void run();
  void keep(std::string_view text);

  const std::string path_;
  const sys::Fd listener_;
  const sys::Fd stop_;  // eventfd, readable when the thread shall end
  const uid_t peer_;
  mutable std::mutex mutex_;
  std::string kept_;  // under mutex_
  std::thread thread_;
};

// What tail() makes of raw console bytes.
std::string printable_tail(std::string_view raw, size_t lines);

}  // namespace turnbox::domain
