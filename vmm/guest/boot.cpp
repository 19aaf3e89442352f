#include "vmm/guest/boot.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/vm_sockets.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <string_view>

#include "vmm/guest/exec_format.h"

namespace turnbox::guest {
namespace {

using sys::ErrorKind;
using sys::fail;
using sys::fail_errno;
using sys::Fd;
using sys::Result;
using sys::Status;

constexpr const char* kDisk = "/dev/vda";
constexpr const char* kDevices = "/run/turnbox/ws";  // the workspace device's private root, in the new root

Status mount_at(const char* type, const char* source, const std::string& target, unsigned long flags,
                const char* options = "") {
  if (::mkdir(target.c_str(), 0755) < 0 && errno != EEXIST) return fail_errno("cannot make " + target);
  if (::mount(source, target.c_str(), type, flags, options) < 0) {
    return fail_errno("cannot mount " + std::string(type) + " " + source + " on " + target);
  }
  return {};
}

Status load_module(const std::string& path) {
  TRY_ASSIGN(const Fd file, sys::open_fd(path.c_str(), O_RDONLY));
  if (::syscall(SYS_finit_module, file.get(), "", 0) < 0 && errno != EEXIST) {
    return fail_errno("cannot load the module " + path);
  }
  ::unlink(path.c_str());  // gives its memory back
  return {};
}

// The root image's disk is there once virtio_blk is loaded; a slow host may need a moment more.
Status wait_for_disk() {
  for (int i = 0; i < 400; ++i) {
    if (::access(kDisk, F_OK) == 0) return {};
    const timespec moment{0, 5'000'000};
    ::nanosleep(&moment, nullptr);
  }
  return fail(ErrorKind::unavailable, std::string("no root image: ") + kDisk + " did not appear within 2 s");
}

Status mount_virtiofs(const char* tag, const std::string& target, unsigned long flags) {
  auto mounted = mount_at("virtiofs", tag, target, flags, "");
  if (!mounted) return sys::context("the file system device " + std::string(tag), std::move(mounted).error());
  return {};
}

Status mount_new_root() {
  TRY(wait_for_disk());
  TRY(mount_at("erofs", kDisk, "/lower", MS_RDONLY));
  TRY(mount_at("tmpfs", "tmpfs", "/upper", 0, "mode=0755"));
  ::mkdir("/upper/data", 0755);
  ::mkdir("/upper/work", 0755);
  return mount_at("overlay", "overlay", "/root", 0,
                  "lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work");
}

Status mount_inside(const std::string& root) {
  const unsigned long plain = MS_NOSUID | MS_NODEV;
  TRY(mount_at("sysfs", "sysfs", root + "/sys", plain | MS_NOEXEC));
  TRY(mount_at("tmpfs", "tmpfs", root + "/run", plain, "mode=0755"));
  TRY(mount_at("tmpfs", "tmpfs", root + "/tmp", plain, "mode=1777"));
  TRY(mount_at("tmpfs", "tmpfs", root + "/project", plain | MS_RDONLY, "size=4k,mode=0755"));
  TRY(mount_at("tmpfs", "tmpfs", "/dev/shm", plain, "mode=1777"));
  TRY(mount_at("devpts", "devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "gid=5,mode=0620,ptmxmode=0666"));
  ::mkdir((root + "/run/turnbox").c_str(), 0700);
  TRY(mount_virtiofs("workspace", root + kDevices, MS_NODEV));
  TRY(mount_virtiofs("turn", root + kTurn, plain));
  ::mkdir((root + kWorkspace).c_str(), 0755);
  return {};
}

// What devtmpfs leaves out and shells rely on.
void link_standard_streams() {
  ::symlink("/proc/self/fd", "/dev/fd");
  ::symlink("/proc/self/fd/0", "/dev/stdin");
  ::symlink("/proc/self/fd/1", "/dev/stdout");
  ::symlink("/proc/self/fd/2", "/dev/stderr");
}

Status switch_root() {
  for (const char* name : {"/dev", "/proc"}) {
    const std::string target = std::string("/root") + name;
    ::mkdir(target.c_str(), 0755);
    if (::mount(name, target.c_str(), nullptr, MS_MOVE, nullptr) < 0)
      return fail_errno("cannot move " + target);
  }
  ::unlink("/init");
  if (::chdir("/root") < 0 || ::mount(".", "/", nullptr, MS_MOVE, nullptr) < 0 || ::chroot(".") < 0 ||
      ::chdir("/") < 0) {
    return fail_errno("cannot switch to the root image");
  }
  return {};
}

Status loopback_up() {
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  if (!socket || ::ioctl(socket.get(), SIOCSIFFLAGS, &request) < 0) return fail_errno("cannot bring up lo");
  return {};
}

}  // namespace

Result<BootOptions> parse_command_line(std::string_view line) {
  BootOptions options;
  while (!line.empty()) {
    const size_t end = std::min(line.find_first_of(" \n"), line.size());
    std::string_view word = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    if (!word.starts_with("turnbox.")) continue;
    const size_t equals = std::min(word.find('='), word.size());
    const std::string_view key = word.substr(0, equals);
    const std::string_view value = word.substr(std::min(equals + 1, word.size()));
    if (key == "turnbox.epoch") {
      const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), options.epoch);
      if (error != std::errc{} || stop != value.data() + value.size() || options.epoch == 0) {
        return fail(ErrorKind::invalid, "turnbox.epoch on the kernel command line is not a positive number");
      }
    } else if (key == "turnbox.hostname" && !value.empty() && value.size() <= 64) {
      options.hostname = value;
    } else {
      return fail(ErrorKind::invalid, "unknown word on the kernel command line: " + std::string(word));
    }
  }
  return options;
}

Status mount_early() {
  TRY(mount_at("devtmpfs", "devtmpfs", "/dev", MS_NOSUID, "mode=0755"));
  return mount_at("proc", "proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC);
}

Result<BootOptions> read_command_line() {
  TRY_ASSIGN(const std::string line, sys::read_file("/proc/cmdline", 8192));
  return parse_command_line(line);
}

Status load_modules() {
  TRY_ASSIGN(const std::string list, sys::read_file("/modules/list", 65'536));
  std::string_view rest = list;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    if (end > 0) TRY(load_module("/modules/" + std::string(rest.substr(0, end))));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

Result<Fd> listen_for_host() {
  Fd socket(::socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail_errno("cannot create a vsock socket");
  sockaddr_vm address{};
  address.svm_family = AF_VSOCK;
  address.svm_cid = VMADDR_CID_ANY;
  address.svm_port = kExecPort;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0 ||
      ::listen(socket.get(), 64) < 0) {
    return fail_errno("cannot listen on vsock port " + std::to_string(kExecPort));
  }
  return socket;
}

Status mount_root(const BootOptions& options) {
  TRY(mount_new_root());
  TRY(mount_inside("/root"));
  link_standard_streams();
  TRY(switch_root());
  return bind_workspace(options.epoch);
}

Status finish_machine(const BootOptions& options) {
  if (::sethostname(options.hostname.c_str(), options.hostname.size()) < 0)
    return fail_errno("cannot set the host name");
  const rlimit files{1024, 524'288};  // few by default, many for those who ask: select() breaks above 1024
  if (::setrlimit(RLIMIT_NOFILE, &files) < 0) return fail_errno("cannot raise the limit of open files");
  return loopback_up();
}

Status set_clock(int64_t clock_ns) {
  const timespec now{clock_ns / 1'000'000'000, clock_ns % 1'000'000'000};
  if (::clock_settime(CLOCK_REALTIME, &now) < 0) return fail_errno("cannot set the clock");
  return {};
}

Status bind_workspace(uint32_t epoch) {
  const std::string from = std::string(kDevices) + "/ws/" + std::to_string(epoch);
  // Checked first, so that a wrong epoch leaves the old one bound.
  if (::access(from.c_str(), F_OK) < 0)
    return fail_errno("there is no workspace epoch " + std::to_string(epoch));
  ::umount2(kWorkspace, MNT_DETACH);  // EINVAL the first time
  if (::mount(from.c_str(), kWorkspace, nullptr, MS_BIND, nullptr) < 0) {
    return fail_errno("cannot bind workspace epoch " + std::to_string(epoch));
  }
  return {};
}

bool flush_devices() {
  bool good = true;
  for (const char* path : {kWorkspace, kTurn}) {
    const Fd directory(::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    good = directory && ::syncfs(directory.get()) == 0 && good;
  }
  return good;
}

Result<Fd> accept_host(Fd& listener) {
  sockaddr_vm peer{};
  socklen_t size = sizeof peer;
  Fd socket(
      ::accept4(listener.get(), reinterpret_cast<sockaddr*>(&peer), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return fail_errno("no connection");
  // A process of the guest is not the host: its requests would carry init's authority.
  if (peer.svm_cid != VMADDR_CID_HOST) return Fd();
  return socket;
}

}  // namespace turnbox::guest
