#include "vmm/sys/fuse_mount.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

#include "vmm/sys/process.h"
#include "vmm/sys/socket.h"

namespace turnbox::sys {
namespace {

constexpr auto kHelperTime = std::chrono::seconds(10);
constexpr size_t kMountTable = size_t{16} << 20;

Result<std::string> check_dir(const std::string& dir) {
  struct stat found {};
  if (::stat(dir.c_str(), &found) < 0) {
    if (errno == ENOENT)
      return fail(ErrorKind::not_found, "there is no directory " + dir + "; make it first");
    return fail_errno("cannot mount on " + dir);
  }
  if (!S_ISDIR(found.st_mode))
    return fail(ErrorKind::invalid, dir + " is not a directory; mount on an empty one");
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(dir.c_str()), ::closedir);
  if (entries == nullptr) return fail_errno("cannot look into " + dir);
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") {
      return fail(ErrorKind::invalid, dir + " is not empty; mount on an empty directory");
    }
  }
  std::error_code failed;
  const std::string path = std::filesystem::canonical(dir, failed).string();
  if (failed) return fail(ErrorKind::io, "cannot mount on " + dir + ": " + failed.message());
  return path;
}

// A path as /proc/self/mountinfo writes it: blanks, newlines and backslashes in octal.
std::string escaped(const std::string& path) {
  std::string out;
  for (const char c : path) {
    switch (c) {
      case ' ':
        out += "\\040";
        break;
      case '\t':
        out += "\\011";
        break;
      case '\n':
        out += "\\012";
        break;
      case '\\':
        out += "\\134";
        break;
      default:
        out += c;
    }
  }
  return out;
}

tl::unexpected<Error> no_device() {
  return fail(ErrorKind::not_found,
              "this host has no /dev/fuse; load the kernel's fuse module (modprobe fuse)");
}

Result<Fd> mount_as_root(const std::string& dir, bool write) {
  Fd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device && (errno == ENOENT || errno == ENODEV || errno == ENXIO)) {
    return no_device();
  }
  if (!device) return fail_errno("cannot open /dev/fuse");
  const std::string options = "fd=" + std::to_string(device.get()) +
                              ",rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions";
  unsigned long flags = MS_NOSUID | MS_NODEV;
  if (!write) flags |= MS_RDONLY;
  if (::mount("turnbox", dir.c_str(), "fuse.turnbox", flags, options.c_str()) == 0) return device;
  const int error = errno;
  if (error == EPERM) {
    return fail(ErrorKind::refused, "this process may not mount on " + dir + " (no CAP_SYS_ADMIN here)");
  }
  return fail_errno("cannot mount on " + dir, error);
}

std::string find_helper() {
  for (const char* path : {"/usr/bin/fusermount3", "/bin/fusermount3", "/usr/local/bin/fusermount3"}) {
    if (::access(path, X_OK) == 0) return path;
  }
  return {};
}

// fusermount3 -o OPTIONS -- DIR, with _FUSE_COMMFD naming a socket on which it sends the descriptor.
Result<Fd> mount_by_helper(const std::string& dir, bool write) {
  const std::string helper = find_helper();
  if (helper.empty()) {
    return fail(ErrorKind::refused,
                "mounting needs root or fusermount3; install the package fuse3, or run as root");
  }
  if (::access("/dev/fuse", F_OK) < 0) return no_device();
  if (::access("/dev/fuse", R_OK | W_OK) < 0) {
    return fail(ErrorKind::refused,
                "this user may not open /dev/fuse, which fusermount3 needs as well; run as root, or "
                "have it opened to this user (Debian's mode is 0666)");
  }
  TRY_ASSIGN(auto sockets, socket_pair(SOCK_STREAM));
  const std::string options =
      std::string(write ? "rw" : "ro") + ",nosuid,nodev,default_permissions,fsname=turnbox,subtype=turnbox";
  TRY_ASSIGN(Process child, Process::spawn({.program = helper,
                                            .argv = {"fusermount3", "-o", options, "--", dir},
                                            .env = {"_FUSE_COMMFD=3", "PATH=/usr/bin:/bin"},
                                            .fds = {{sockets.second.get(), 3}}}));
  sockets.second.reset();
  const auto ended = child.wait_for(kHelperTime);
  if (!ended) return fail(ErrorKind::unavailable, "fusermount3 did not answer within 10 s");
  if (ended->signalled || ended->code != 0) {
    return fail(ErrorKind::refused, "fusermount3 did not mount on " + dir + "; its reason stands above");
  }
  std::byte byte[16];
  TRY_ASSIGN(Received got, receive_with_fds(sockets.first.get(), byte));
  if (got.fds.size() != 1) return fail(ErrorKind::protocol, "fusermount3 sent no descriptor");
  return std::move(got.fds[0]);
}

}  // namespace

Result<FuseMount> FuseMount::make(const std::string& dir, bool write) {
  FuseMount mount;
  TRY_ASSIGN(const std::string path, check_dir(dir));
  TRY_ASSIGN(mount.device_, ::geteuid() == 0 ? mount_as_root(path, write) : mount_by_helper(path, write));
  mount.dir_ = path;
  mount.number_ = number_at(path);
  return mount;
}

void FuseMount::unmount() {
  device_.reset();
  if (!dir_.empty()) unmount(dir_, number_);
  dir_.clear();
}

void FuseMount::unmount(const std::string& dir, const std::string& number) {
  if (number.empty() || number_at(dir) != number) return;  // gone already, or somebody else's
  if (::geteuid() == 0) {
    (void)::umount2(dir.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
    return;
  }
  auto child =
      Process::spawn({.program = find_helper(), .argv = {"fusermount3", "-u", "-q", "-z", "--", dir}});
  if (child) (void)child->wait_for(kHelperTime);
}

// The device number of the uppermost mount at `dir`; empty when there is none. Read from the table, since
// looking at the mount itself would wait for whoever serves it.
std::string FuseMount::number_at(const std::string& dir) {
  const auto table = read_file("/proc/self/mountinfo", kMountTable);
  if (!table) return {};
  const std::string wanted = escaped(dir);
  std::string number;
  for (size_t at = 0; at < table->size();) {
    const size_t end = std::min(table->find('\n', at), table->size());
    std::vector<std::string_view> words;  // id, parent, major:minor, root, mount point, …
    for (std::string_view line(table->data() + at, end - at); words.size() < 5;) {
      const size_t blank = line.find(' ');
      words.push_back(line.substr(0, blank));
      if (blank == line.npos) break;
      line.remove_prefix(blank + 1);
    }
    if (words.size() == 5 && words[4] == wanted) number = words[2];
    at = end + 1;
  }
  return number;
}

}  // namespace turnbox::sys
