// How a bench's first process gets to the root image: what turnbox-init must do as well, and nothing else.
// Static programs, packed into an initramfs beside the image's modules. What fails powers the guest off.
#pragma once

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <initializer_list>

namespace turnbox::bench {

[[noreturn]] inline void stop(const char* what) {
  std::perror(what);
  ::reboot(RB_POWER_OFF);
  while (true) ::pause();
}

inline void mount_or_stop(const char* type, const char* source, const char* target, unsigned long flags,
                          const char* options) {
  ::mkdir(target, 0755);
  if (::mount(source, target, type, flags, options) < 0) stop(target);
}

inline void load_modules() {
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

// Mounts the root image of this disk under an overlay and moves there; /dev and /proc come along.
inline void move_to_root(const char* disk) {
  mount_or_stop("erofs", disk, "/lower", MS_RDONLY, "");
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

}  // namespace turnbox::bench
