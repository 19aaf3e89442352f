// The first process of boot_bench's bare guest: what turnbox-init must do as well before a command can run,
// and nothing else. Loads the image's modules, mounts the root image under an overlay, moves there, then
// prints one byte: itself, or, with bare=exec on the kernel's command line, through the image's own echo.
// Static; packed by boot_bench.py into an initramfs in the place of turnbox-init.
#include "tests/bench/guest_start.h"

int main() {
  using namespace turnbox::bench;
  mount_or_stop("devtmpfs", "devtmpfs", "/dev", MS_NOSUID, "mode=0755");
  mount_or_stop("proc", "proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "");
  char words[4096] = {};
  const int cmdline = ::open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
  if (cmdline < 0 || ::read(cmdline, words, sizeof words - 1) < 0) stop("/proc/cmdline");
  load_modules();
  move_to_root("/dev/vda");
  if (std::strstr(words, "bare=exec") != nullptr) {
    const pid_t child = ::fork();
    if (child == 0) {
      const char* const argv[] = {"echo", "~", nullptr};
      // As turnbox gives it: a locale is what a small command spends its start on.
      const char* const env[] = {"PATH=/usr/bin:/bin", "HOME=/root", "LANG=C.UTF-8", nullptr};
      ::execve("/bin/echo", const_cast<char* const*>(argv), const_cast<char* const*>(env));
      stop("/bin/echo");
    }
  } else if (::write(STDOUT_FILENO, "~", 1) != 1) {
    stop("the console");
  }
  while (true) ::pause();
}
