// The first and only process of domain_probe's guest: says that it is up, then does what the kernel's command
// line asks (do=off, do=panic, do=reboot), or waits. Static; packed into an initramfs by risk_libvirt.py.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

int main() {
  ::mkdir("/proc", 0755);
  ::mount("proc", "/proc", "proc", 0, "");
  char words[4096] = {};
  const int cmdline = ::open("/proc/cmdline", O_RDONLY);
  if (cmdline >= 0 && ::read(cmdline, words, sizeof words - 1) < 0) words[0] = 0;
  std::puts("INIT UP");
  std::fflush(stdout);
  if (std::strstr(words, "do=off") != nullptr) ::reboot(RB_POWER_OFF);
  if (std::strstr(words, "do=panic") != nullptr) return 1;
  if (std::strstr(words, "do=reboot") != nullptr) ::reboot(RB_AUTOBOOT);
  while (true) ::pause();
}
