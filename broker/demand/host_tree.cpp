#include "broker/demand/host_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "vmm/sys/bytes.h"

namespace turnbox::demand {
namespace {

using sys::Bytes;
using sys::ErrorKind;

constexpr size_t kMostXattrNames = 65'536, kMostXattr = 65'536;  // Linux's own limits
constexpr uint32_t kMaxExtent = uint32_t{4} << 20;

class Walk {
 public:
  Walk(const std::string& root, const TakePiece& take, const Tell& tell, HostStamps* stamps)
      : root_(root), tell_(tell), out_(take, kPieceBytes), stamps_(stamps) {}

  sys::Result<HostTreeTotals> run(const sys::Fd& fd, const struct stat& st) {
    const bool directory = S_ISDIR(st.st_mode);
    TRY(directory ? put_directory("", st) : put_file("", fd.get(), st));
    TRY(put_xattrs("", fd.get()));
    if (directory) TRY(walk(fd.get(), ""));
    TRY(out_.finish());
    return totals_;
  }

 private:
  std::string shown(const std::string& path) const { return path.empty() ? root_ : root_ + "/" + path; }

  ImportHead head_of(char type, const struct stat& st) const {
    // Only root may keep others' owners; whoever else imports owns everything, as a copy would.
    const bool keep = ::geteuid() == 0;
    return {.type = type,
            .mode = static_cast<uint16_t>(st.st_mode & 07777),
            .uid = keep ? st.st_uid : 0,
            .gid = keep ? st.st_gid : 0,
            .mtime_sec = st.st_mtim.tv_sec,
            .mtime_nsec = static_cast<uint32_t>(st.st_mtim.tv_nsec)};
  }

  void count(const std::string& path, const struct stat& st) {
    ++totals_.entries;
    if (stamps_ != nullptr) stamps_->insert_or_assign(path, HostStamp::of(st));
  }

  sys::Status put_directory(const std::string& path, const struct stat& st) {
    count(path, st);
    return out_.put(head_of('d', st), path);
  }

  // The names are read whole first: no descriptor stays open per level but the directory's own.
  sys::Status walk(int dir, const std::string& path) {
    const int copy = ::fcntl(dir, F_DUPFD_CLOEXEC, 3);
    std::unique_ptr<DIR, int (*)(DIR*)> list(copy < 0 ? nullptr : ::fdopendir(copy), ::closedir);
    if (!list) return sys::fail_errno("cannot read the directory " + shown(path));
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(list.get())) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    list.reset();
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      TRY(entry(dir, name, path.empty() ? name : path + "/" + name));
      if (totals_.entries % 512 == 0) tell_(totals_);
    }
    return {};
  }

  sys::Status entry(int dir, const std::string& name, const std::string& path) {
    struct stat st;
    if (::fstatat(dir, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) < 0) return vanished(path);
    if (!S_ISDIR(st.st_mode) && st.st_nlink > 1) {
      const auto [first, added] = links_.try_emplace({st.st_dev, st.st_ino}, path);
      if (!added) return put_small('h', path, st, first->second);
    }
    switch (st.st_mode & S_IFMT) {
      case S_IFDIR:
        return subdirectory(dir, name, path);
      case S_IFREG:
        return file(dir, name, path);
      case S_IFLNK:
        return symlink(dir, name, path, st);
      case S_IFIFO:
        return put_small('p', path, st, "");
      case S_IFSOCK:
        return refused(path, "a socket");
      default:
        return refused(path, "a device");
    }
  }

  sys::Status subdirectory(int dir, const std::string& name, const std::string& path) {
    sys::Fd fd(::openat(dir, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) return vanished(path);
    struct stat st;
    if (::fstat(fd.get(), &st) < 0) return vanished(path);
    TRY(put_directory(path, st));
    TRY(put_xattrs(path, fd.get()));
    return walk(fd.get(), path);
  }

  sys::Status file(int dir, const std::string& name, const std::string& path) {
    // O_NOATIME is for owners only; without it the kernel may move the access time, as any reader does.
    sys::Fd fd(::openat(dir, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOATIME));
    if (!fd && errno == EPERM)
      fd = sys::Fd(::openat(dir, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!fd) return vanished(path);
    struct stat st;
    if (::fstat(fd.get(), &st) < 0 || !S_ISREG(st.st_mode)) return vanished(path);
    TRY(put_file(path, fd.get(), st));
    return put_xattrs(path, fd.get());
  }

  // user., trusted. and security.; what else there is (system., with POSIX ACLs) the tree does not have. Of symlinks
  // and special files nothing is read.
  sys::Status put_xattrs(const std::string& path, int fd) {
    std::string names(kMostXattrNames, '\0');
    const ssize_t size = ::flistxattr(fd, names.data(), names.size());
    if (size <= 0)
      return size < 0 && errno != ENOTSUP ? sys::fail_errno("cannot read the attributes of " + shown(path))
                                          : sys::Status();
    names.resize(static_cast<size_t>(size));
    std::vector<std::pair<std::string, std::string>> xattrs;
    std::string name;
    for (size_t at = 0; at < names.size(); at += name.size() + 1) {
      name = names.c_str() + at;
      if (!name.starts_with("user.") && !name.starts_with("trusted.") && !name.starts_with("security.")) continue;
      std::string value(kMostXattr, '\0');
      const ssize_t got = ::fgetxattr(fd, name.c_str(), value.data(), value.size());
      if (got < 0) return changed(path);
      value.resize(static_cast<size_t>(got));
      xattrs.emplace_back(name, std::move(value));
    }
    std::sort(xattrs.begin(), xattrs.end());
    return out_.put_xattrs(path, xattrs);
  }

  sys::Status symlink(int dir, const std::string& name, const std::string& path, const struct stat& st) {
    char target[4096];
    const ssize_t size = ::readlinkat(dir, name.c_str(), target, sizeof target);
    if (size <= 0 || static_cast<size_t>(size) == sizeof target) return vanished(path);
    return put_small('l', path, st, std::string_view(target, static_cast<size_t>(size)));
  }

  sys::Status put_small(char type, const std::string& path, const struct stat& st, std::string_view body) {
    count(path, st);
    return out_.put(head_of(type, st), path, sys::as_bytes(body));
  }

  // One `f` record with what fits in a piece, then `x` records: a file is never whole in memory.
  sys::Status put_file(const std::string& path, int fd, const struct stat& st) {
    count(path, st);
    const auto size = static_cast<uint64_t>(st.st_size);
    ImportHead head = head_of('f', st);
    uint64_t at = 0;
    do {
      Bytes body;
      if (head.type == 'f') sys::append_le(body, size);
      TRY(take_extents(path, fd, size, at, body));
      TRY(out_.put(head, path, body));
      tell_(totals_);
      head.type = 'x';
    } while (at < size);
    return {};
  }

  sys::Status take_extents(const std::string& path, int fd, uint64_t size, uint64_t& at, Bytes& body) {
    while (at < size && body.size() < kPieceBytes / 2) {
      const off_t data = ::lseek(fd, static_cast<off_t>(at), SEEK_DATA);
      if (data < 0 && errno == ENXIO) {
        at = size;  // a hole to the end
        break;
      }
      if (data < 0) return sys::fail_errno("cannot read " + shown(path));
      const off_t hole = ::lseek(fd, data, SEEK_HOLE);
      const uint64_t end = std::min(size, hole < 0 ? size : static_cast<uint64_t>(hole));
      at = static_cast<uint64_t>(data);
      const auto length = static_cast<uint32_t>(std::min<uint64_t>(kMaxExtent, end > at ? end - at : 0));
      if (length == 0) {
        at = size;
        break;
      }
      sys::append_le(body, at);
      sys::append_le(body, length);
      const size_t from = body.size();
      body.resize(from + length);
      TRY_ASSIGN(const size_t got, sys::pread_full(fd, std::span(body).subspan(from), at));
      if (got != length) return changed(path);
      at += length;
      totals_.bytes += length;
    }
    return {};
  }

  sys::Status vanished(const std::string& path) const {
    if (errno == EACCES || errno == EPERM) return sys::fail_errno("cannot read " + shown(path));
    return changed(path);
  }
  sys::Status changed(const std::string& path) const {
    return sys::fail(ErrorKind::invalid,
                     shown(path) + " changed while it was being read; try again when nothing writes to it");
  }
  sys::Status refused(const std::string& path, const char* what) const {
    return sys::fail(ErrorKind::invalid,
                     shown(path) + " is " + what +
                         ", which cannot go into a sandbox; remove it or choose another directory");
  }

  const std::string& root_;
  const Tell& tell_;
  ImportStream out_;
  HostStamps* stamps_;
  HostTreeTotals totals_;
  std::map<std::pair<dev_t, ino_t>, std::string> links_;  // first path of every inode with several names
};

}  // namespace

sys::Result<HostTreeTotals> read_host_tree(const std::string& path, RootKind kind, const TakePiece& take,
                                           const Tell& tell, HostStamps* stamps) {
  // The kind is checked before opening: opening a fifo for reading would wait for a writer.
  struct stat st;
  if (::stat(path.c_str(), &st) < 0) return sys::fail_errno("cannot import " + path);
  const bool directory = S_ISDIR(st.st_mode);
  if (!directory && (kind == RootKind::directory || !S_ISREG(st.st_mode))) {
    return sys::fail(ErrorKind::invalid,
                     path + (kind == RootKind::directory
                                 ? " is not a directory; give a directory to --workspace"
                                 : " is neither a file nor a directory; give one of them to --input"));
  }
  TRY_ASSIGN(sys::Fd fd, sys::open_fd(path.c_str(), O_RDONLY | O_NONBLOCK));
  if (::fstat(fd.get(), &st) < 0) return sys::fail_errno("cannot import " + path);
  return Walk(path, take, tell, stamps).run(fd, st);
}

}  // namespace turnbox::demand
