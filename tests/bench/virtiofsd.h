// QEMU's C virtiofsd as the bench's peer: a real process on a directory of tmpfs, with its best options.
#pragma once

#include <string>

#include "vmm/sys/process.h"

namespace turnbox::bench {

class Virtiofsd {
 public:
  // Empty: it is not installed.
  static std::string program();

  Virtiofsd();
  ~Virtiofsd();
  Virtiofsd(const Virtiofsd&) = delete;
  Virtiofsd& operator=(const Virtiofsd&) = delete;

  const std::string& socket() const { return socket_; }

 private:
  std::string directory_;  // on /dev/shm: what it serves
  std::string socket_;
  sys::Process process_;
};

}  // namespace turnbox::bench
