// A FUSE mount that is made here and served elsewhere: the mount point, and the /dev/fuse descriptor for
// whoever serves.
//
// As root by mount(2); otherwise by fusermount3, whose protocol hands the descriptor back over a socket that
// the environment names. The mount is nosuid and nodev always, since what is shown may be a guest's;
// permissions are the kernel's to check.
#pragma once

#include <string>

#include "vmm/sys/fd.h"

namespace turnbox::sys {

class FuseMount {
 public:
  // `dir` is an empty directory. Errors are sentences for the operator and leave nothing behind: not_found
  // (no such directory, no /dev/fuse), invalid (not a directory, not empty), refused (not permitted).
  static Result<FuseMount> make(const std::string& dir, bool write);

  FuseMount(FuseMount&& other) noexcept = default;
  FuseMount& operator=(FuseMount&& other) noexcept = default;
  ~FuseMount() { unmount(); }

  const std::string& dir() const { return dir_; }  // absolute, without symbolic links
  int device() const { return device_.get(); }
  // After it was passed on: with our copy open, the mount would outlive whoever serves it.
  void close_device() { device_.reset(); }
  // «MAJOR:MINOR» as /proc/self/mountinfo tells it; tells this mount from a later one at the same place.
  const std::string& number() const { return number_; }

  // Takes the mount away if it is still there, even while files in it are open (those answer ENOTCONN).
  void unmount();

  // The same by name, for a process that did not make the mount.
  static void unmount(const std::string& dir, const std::string& number);
  // Of the uppermost mount at a directory, in the form of number(); empty when there is none.
  static std::string number_at(const std::string& dir);

 private:
  FuseMount() = default;
  std::string dir_;
  std::string number_;
  Fd device_;
};

}  // namespace turnbox::sys
