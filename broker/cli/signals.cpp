#include "broker/cli/signals.h"

#include <sys/signalfd.h>

#include <csignal>

namespace turnbox::cli {

sys::Result<sys::Fd> signals_as_descriptor() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  sys::Fd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return sys::fail_errno("cannot watch for signals");
  return fd;
}

}  // namespace turnbox::cli
