#include "tests/differential/host_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

namespace turnbox::differential {

namespace {

constexpr unsigned kListBuffer = 2048;

Answer result(int64_t done) {
  return done < 0 ? -errno : done;
}

const char* here(const std::string& path) {
  return path.empty() ? "." : path.c_str();
}

std::string through_proc(int fd) {
  return "self/fd/" + std::to_string(fd);
}

[[noreturn]] void give_up(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

const HostDirectory* standing = nullptr;  // whose root directory and ids this process has
Who standing_as;

// setfsuid(2) takes the capabilities of files away from who is not root, and gives them back; this one is
// left.
void have_sys_admin(bool have) {
  __user_cap_header_struct head{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3]{};
  if (::syscall(SYS_capget, &head, data) != 0) give_up("cannot ask for capabilities");
  constexpr uint32_t kBit = 1U << CAP_SYS_ADMIN;
  data[0].effective = have ? data[0].effective | kBit : data[0].effective & ~kBit;
  if (::syscall(SYS_capset, &head, data) != 0) give_up("cannot set capabilities");
}

Stat to_stat(const struct stat& from) {
  return {.ino = from.st_ino,
          .mode = from.st_mode,
          .nlink = static_cast<uint32_t>(from.st_nlink),
          .uid = from.st_uid,
          .gid = from.st_gid,
          .rdev = from.st_rdev,
          .size = static_cast<uint64_t>(from.st_size),
          .blocks = static_cast<uint64_t>(from.st_blocks),
          .blksize = static_cast<uint64_t>(from.st_blksize),
          .atime = from.st_atim,
          .mtime = from.st_mtim,
          .ctime = from.st_ctim};
}

}  // namespace

HostDirectory::HostDirectory(std::string name, const std::string& directory, bool lacks_zero_range)
    : name_(std::move(name)),
      lacks_zero_range_(lacks_zero_range),
      directory_(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
      proc_fds_(::open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  if (!directory_) give_up("cannot open " + directory);
  if (!proc_fds_) give_up("cannot open /proc");
}

HostDirectory::~HostDirectory() {
  for (auto& slot : slots_) slot.reset();
  sweep();
  standing = nullptr;
  ::setfsgid(0), ::setfsuid(0);
  if (standing_as.uid != 0) have_sys_admin(true);
  standing_as = {};
}

void HostDirectory::sweep() {
  if (!root_) return;
  become({});
  root_.reset();
  standing = nullptr;
  std::error_code ignored;
  if (::setfsuid(0), ::setfsgid(0), ::fchdir(directory_.get()) == 0 && ::chroot(".") == 0) {
    std::filesystem::remove_all("episode" + std::to_string(entered_), ignored);
  }
}

void HostDirectory::enter() {
  for (auto& slot : slots_) slot.reset();
  sweep();
  const std::string made = "episode" + std::to_string(++entered_);
  ::setfsuid(0), ::setfsgid(0), ::umask(022);
  if (::mkdirat(directory_.get(), made.c_str(), 0755) != 0) give_up("cannot make a directory for an episode");
  root_ = sys::Fd(::openat(directory_.get(), made.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root_) give_up("cannot open the directory of an episode");
  standing = nullptr;
}

void HostDirectory::be_there() {
  if (standing != this) {
    ::setfsuid(0), ::setfsgid(0);
    if (::fchdir(root_.get()) != 0 || ::chroot(".") != 0) give_up("cannot change the root directory");
  } else if (standing_as.uid == who_.uid && standing_as.gid == who_.gid && standing_as.umask == who_.umask) {
    return;
  }
  ::setfsgid(who_.gid), ::setfsuid(who_.uid), ::umask(who_.umask);
  if ((standing_as.uid == 0) != (who_.uid == 0)) have_sys_admin(who_.uid == 0);
  standing = this;
  standing_as = who_;
}

// What open(2) would do to a fifo or a device is no affair of a file system: they are not opened.
Answer HostDirectory::open(int slot, const std::string& path, uint32_t flags, uint32_t mode) {
  close(slot);
  be_there();
  struct stat there {};
  const bool exclusive = (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0;
  const int look = (flags & O_NOFOLLOW) != 0 || exclusive ? AT_SYMLINK_NOFOLLOW : 0;
  const bool named = (flags & O_TMPFILE) != O_TMPFILE;
  if (::fstatat(AT_FDCWD, here(path), &there, look) == 0 && named && !exclusive && !S_ISREG(there.st_mode) &&
      !S_ISDIR(there.st_mode) && !S_ISLNK(there.st_mode)) {
    return -ENXIO;
  }
  slots_[static_cast<size_t>(slot)] =
      sys::Fd(::open(here(path), static_cast<int>(flags | O_CLOEXEC | O_NONBLOCK), mode));
  return fd(slot) < 0 ? -errno : 0;
}

Answer HostDirectory::close(int slot) {
  const bool was = fd(slot) >= 0;
  slots_[static_cast<size_t>(slot)].reset();
  return was ? 0 : -EBADF;
}

Answer HostDirectory::read(int slot, uint64_t offset, uint32_t size, std::string& bytes) {
  be_there();
  bytes.resize(size);
  const Answer answer = result(::pread(fd(slot), bytes.data(), size, static_cast<off_t>(offset)));
  bytes.resize(answer < 0 ? 0 : static_cast<size_t>(answer));
  return answer;
}

Answer HostDirectory::write(int slot, uint64_t offset, const std::string& bytes) {
  be_there();
  return result(::pwrite(fd(slot), bytes.data(), bytes.size(), static_cast<off_t>(offset)));
}

// In a directory SEEK_DATA means whatever the file system's own llseek makes of it.
Answer HostDirectory::seek(int slot, uint64_t offset, int whence) {
  be_there();
  struct stat there {};
  if (::fstat(fd(slot), &there) == 0 && S_ISDIR(there.st_mode)) return -EINVAL;
  return result(::lseek(fd(slot), static_cast<off_t>(offset), whence));
}

Answer HostDirectory::punch_and_allocate(int slot, uint32_t mode, uint64_t offset, uint64_t size) {
  const auto at = static_cast<off_t>(offset), length = static_cast<off_t>(size);
  const bool keep = (mode & FALLOC_FL_KEEP_SIZE) != 0;
  if (::fallocate(fd(slot), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, length) != 0) return -errno;
  return result(::fallocate(fd(slot), keep ? FALLOC_FL_KEEP_SIZE : 0, at, length));
}

Answer HostDirectory::allocate(int slot, uint32_t mode, uint64_t offset, uint64_t size) {
  be_there();
  if (lacks_zero_range_ && (mode & ~uint32_t{FALLOC_FL_KEEP_SIZE}) == FALLOC_FL_ZERO_RANGE) {
    return punch_and_allocate(slot, mode, offset, size);
  }
  return result(
      ::fallocate(fd(slot), static_cast<int>(mode), static_cast<off_t>(offset), static_cast<off_t>(size)));
}

Answer HostDirectory::copy_range(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size) {
  be_there();
  auto in = static_cast<off64_t>(from_offset), out = static_cast<off64_t>(to_offset);
  return result(::copy_file_range(fd(from), &in, fd(to), &out, size, 0));
}

Answer HostDirectory::mkdir(const std::string& path, uint32_t mode) {
  be_there();
  return result(::mkdir(here(path), mode));
}

Answer HostDirectory::rmdir(const std::string& path) {
  be_there();
  return result(::rmdir(here(path)));
}

Answer HostDirectory::mknod(const std::string& path, uint32_t mode, uint32_t major, uint32_t minor) {
  be_there();
  return result(::mknod(here(path), mode, makedev(major, minor)));
}

Answer HostDirectory::symlink(const std::string& target, const std::string& path) {
  be_there();
  return result(::symlink(target.c_str(), here(path)));
}

Answer HostDirectory::readlink(const std::string& path, std::string& target) {
  be_there();
  target.resize(8192);
  const Answer answer = result(::readlink(here(path), target.data(), target.size()));
  target.resize(answer < 0 ? 0 : static_cast<size_t>(answer));
  return answer;
}

Answer HostDirectory::link(const At& from, const std::string& path) {
  be_there();
  if (from.slot < 0) {
    return result(
        ::linkat(AT_FDCWD, here(from.path), AT_FDCWD, here(path), from.follow ? AT_SYMLINK_FOLLOW : 0));
  }
  if (fd(from.slot) < 0) return -EBADF;
  return result(::linkat(proc_fds_.get(), through_proc(fd(from.slot)).c_str(), AT_FDCWD, here(path),
                         AT_SYMLINK_FOLLOW));
}

Answer HostDirectory::unlink(const std::string& path) {
  be_there();
  return result(::unlink(here(path)));
}

Answer HostDirectory::rename(const std::string& from, const std::string& to, uint32_t flags) {
  be_there();
  return result(::renameat2(AT_FDCWD, here(from), AT_FDCWD, here(to), flags));
}

Answer HostDirectory::stat(const At& at, Stat& stat) {
  be_there();
  struct stat got {};
  const int done = at.slot >= 0
                       ? ::fstat(fd(at.slot), &got)
                       : ::fstatat(AT_FDCWD, here(at.path), &got, at.follow ? 0 : AT_SYMLINK_NOFOLLOW);
  stat = to_stat(got);
  return result(done);
}

Answer HostDirectory::chmod(const At& at, uint32_t mode) {
  be_there();
  return result(at.slot >= 0 ? ::fchmod(fd(at.slot), mode) : ::chmod(here(at.path), mode));
}

Answer HostDirectory::chown(const At& at, uint32_t uid, uint32_t gid) {
  be_there();
  if (at.slot >= 0) return result(::fchown(fd(at.slot), uid, gid));
  return result(at.follow ? ::chown(here(at.path), uid, gid) : ::lchown(here(at.path), uid, gid));
}

Answer HostDirectory::utimens(const At& at, const std::array<timespec, 2>& times) {
  be_there();
  if (at.slot >= 0) return fd(at.slot) < 0 ? -EBADF : result(::futimens(fd(at.slot), times.data()));
  return result(::utimensat(AT_FDCWD, here(at.path), times.data(), at.follow ? 0 : AT_SYMLINK_NOFOLLOW));
}

Answer HostDirectory::truncate(const At& at, uint64_t size) {
  be_there();
  const auto length = static_cast<off_t>(size);
  return result(at.slot >= 0 ? ::ftruncate(fd(at.slot), length) : ::truncate(here(at.path), length));
}

Answer HostDirectory::setxattr(const At& at, const std::string& name, const std::string& value, int flags) {
  be_there();
  if (at.slot >= 0 && fd(at.slot) < 0) return -EBADF;  // kernels differ in what they look at first
  const char* key = name.c_str();
  if (at.slot >= 0) return result(::fsetxattr(fd(at.slot), key, value.data(), value.size(), flags));
  const auto call = at.follow ? &::setxattr : &::lsetxattr;
  return result(call(here(at.path), key, value.data(), value.size(), flags));
}

Answer HostDirectory::getxattr(const At& at, const std::string& name, uint32_t room, std::string& value) {
  be_there();
  if (at.slot >= 0 && fd(at.slot) < 0) return -EBADF;  // kernels differ in what they look at first
  value.resize(room);
  ssize_t got = 0;
  if (at.slot >= 0) {
    got = ::fgetxattr(fd(at.slot), name.c_str(), value.data(), room);
  } else {
    const auto call = at.follow ? &::getxattr : &::lgetxattr;
    got = call(here(at.path), name.c_str(), value.data(), room);
  }
  const Answer answer = result(got);
  value.resize(answer < 0 || room == 0 ? 0 : static_cast<size_t>(answer));
  return answer;
}

Answer HostDirectory::listxattr(const At& at, uint32_t room, std::vector<std::string>& names) {
  be_there();
  std::string packed(room, '\0');
  ssize_t got = 0;
  if (at.slot >= 0) {
    got = ::flistxattr(fd(at.slot), packed.data(), room);
  } else {
    const auto call = at.follow ? &::listxattr : &::llistxattr;
    got = call(here(at.path), packed.data(), room);
  }
  const Answer answer = result(got);
  names.clear();
  if (answer < 0 || room == 0) return answer;
  for (size_t i = 0; i < static_cast<size_t>(answer); i += names.back().size() + 1)
    names.emplace_back(&packed[i]);
  return answer;
}

Answer HostDirectory::removexattr(const At& at, const std::string& name) {
  be_there();
  if (at.slot >= 0 && fd(at.slot) < 0) return -EBADF;  // kernels differ in what they look at first
  if (at.slot >= 0) return result(::fremovexattr(fd(at.slot), name.c_str()));
  return result(at.follow ? ::removexattr(here(at.path), name.c_str())
                          : ::lremovexattr(here(at.path), name.c_str()));
}

Answer HostDirectory::list(const std::string& path, std::vector<Entry>& entries) {
  be_there();
  const sys::Fd dir(::open(here(path), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!dir) return -errno;
  unsigned dots = 0;
  alignas(dirent64) char buffer[kListBuffer];
  for (;;) {
    const long got = ::syscall(SYS_getdents64, dir.get(), buffer, sizeof buffer);
    if (got < 0) return -errno;
    if (got == 0) break;
    for (long at = 0; at < got;) {
      dirent64 head;
      std::memcpy(&head, buffer + at, offsetof(dirent64, d_name));
      const std::string name(buffer + at + offsetof(dirent64, d_name));
      if (name == "." || name == "..") {
        ++dots;
      } else {
        entries.push_back({name, head.d_type, head.d_ino});
      }
      at += head.d_reclen;
    }
  }
  return dots == 2 ? 0 : -EBADMSG;
}

Answer HostDirectory::statfs(Space& space) {
  be_there();
  struct statvfs got {};
  if (::fstatvfs(root_.get(), &got) != 0) return -errno;
  space = {.blocks = got.f_blocks,
           .free_blocks = got.f_bfree,
           .files = got.f_files,
           .free_files = got.f_ffree,
           .name_max = got.f_namemax,
           .block_size = got.f_bsize};
  return 0;
}

}  // namespace turnbox::differential
