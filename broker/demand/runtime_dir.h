// The runtime directory of one live sandbox: sockets, libvirt's root, the console log, and the owner's lock.
//
// Whoever holds the lock on owner.lock owns the sandbox; the lock goes with the process. A directory whose
// lock can be taken has no owner, and reconcile.h clears it. On removal everything inside goes, then the
// directory itself.
#pragma once

#include <sys/types.h>

#include <string>

#include "vmm/sys/fd.h"

namespace turnbox::demand {

// Sockets in it that other commands of the owner connect to.
inline constexpr char kOperatorsSocket[] =
    "fsd.sock";  // fsd's second control door (docs/WIRE.md, «Operators»)
inline constexpr char kVsockSocket[] = "vsock.sock";  // the guest's ports (docs/WIRE.md, «CONNECT»)

class RuntimeDir {
 public:
  // Makes `<runtime>/<id>` (mode 0710, with that group unless 0) and takes its lock.
  static sys::Result<RuntimeDir> make(const std::string& runtime, const std::string& id, gid_t group);
  // Takes over an existing one; kind conflict while somebody owns it.
  static sys::Result<RuntimeDir> take_over(const std::string& path);
  static bool is_free(const std::string& path);  // nobody holds its lock now

  RuntimeDir(RuntimeDir&&) noexcept = default;
  RuntimeDir& operator=(RuntimeDir&&) = delete;
  ~RuntimeDir();  // removes the directory unless remove() did

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  sys::Status remove();

 private:
  RuntimeDir(std::string path, sys::Fd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  sys::Fd lock_;
};

}  // namespace turnbox::demand
