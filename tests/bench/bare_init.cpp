// The first process of boot_bench's bare guest: what turnbox-init must do as well before a command can run,
// and nothing else. Loads the image's modules, mounts the root image under an overlay, moves there, then
// prints one byte: itself, or, with bare=exec on the kernel's command line, through the image's own echo.
// Static; packed by boot_bench.py into an initramfs in the place of turnbox-init.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

[[noreturn]] void stop(const char* what) {
  std::perror(what);
  ::reboot(RB_POWER_OFF);
  while (true) ::pause();
}

void mount_or_stop(const char* type, const char* source, const char* target, unsigned long flags,
                   const char* options) {
  ::mkdir(target, 0755);
  if (::mount(source, target, type, flags, options) < 0) stop(target);
}

void load_modules() {
  std::FILE* list = std::fopen("/modules/list", "r");
  if (list == nullptr) stop("/modules/list");
  char name[200];
  while (std::fgets(name, sizeof name, list) != nullptr) {
    name[std::strcspn(name, "\n")] = 0;
    if (name[0] == 0) continue;
    char path[256];
    std::snprintf(path, sizeof path, "/modules/%s", name);
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || ::syscall(SYS_finit_module, fd, "", 0) < 0) stop(path);
    ::close(fd);
  }
  std::fclose(list);
}

void mount_root() {
  mount_or_stop("erofs", "/dev/vda", "/lower", MS_RDONLY, "");
  mount_or_stop("tmpfs", "tmpfs", "/upper", 0, "mode=0755");
  ::mkdir("/upper/data", 0755);
  ::mkdir("/upper/work", 0755);
  mount_or_stop("overlay", "overlay", "/root", 0, "lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work");
  for (const char* name : {"/dev", "/proc"}) {
    char target[32];
    std::snprintf(target, sizeof target, "/root%s", name);
    ::mkdir(target, 0755);
    if (::mount(name, target, nullptr, MS_MOVE, nullptr) < 0) stop(target);
  }
  if (::chdir("/root") < 0 || ::mount(".", "/", nullptr, MS_MOVE, nullptr) < 0 || ::chroot(".") < 0 ||
      ::chdir("/") < 0) {
    stop("the root image");
  }
}

}  // namespace

int main() {
  mount_or_stop("devtmpfs", "devtmpfs", "/dev", MS_NOSUID, "mode=0755");
  mount_or_stop("proc", "proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "");
  char words[4096] = {};
  const int cmdline = ::open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
  if (cmdline < 0 || ::read(cmdline, words, sizeof words - 1) < 0) stop("/proc/cmdline");
  load_modules();
  mount_root();
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
