#include "broker/demand/materialise.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>

namespace turnbox::demand {
namespace {

using sys::ByteSpan;
using sys::Status;

constexpr size_t kBlock = 4096;

bool is_zero(ByteSpan bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

tl::unexpected<sys::Error> failed(const turn::TreeEntry& entry, const char* what) {
  return sys::fail_errno(std::string("cannot ") + what + " '" + entry.path + "'");
}

// Blocks of zeros are left out as holes.
Status write_content(const turn::StoredTree& tree, const turn::TreeEntry& entry, int fd) {
  TRY_ASSIGN(const uint64_t size, tree.size(entry.digest));
  if (::ftruncate(fd, static_cast<off_t>(size)) < 0) return failed(entry, "write");
  uint64_t at = 0;
  const auto sink = [&](ByteSpan bytes) -> Status {
    for (size_t from = 0; from < bytes.size();) {
      size_t to = from;
      while (to < bytes.size() && !is_zero(bytes.subspan(to, std::min(kBlock, bytes.size() - to))))
        to += std::min(kBlock, bytes.size() - to);
      for (size_t done = from; done < to;) {
        const ssize_t wrote = ::pwrite(fd, bytes.data() + done, to - done, static_cast<off_t>(at + done));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return failed(entry, "write");
        done += static_cast<size_t>(wrote);
      }
      from = to + (to < bytes.size() ? std::min(kBlock, bytes.size() - to) : 0);
    }
    at += bytes.size();
    return {};
  };
  return tree.content(entry.digest, sink);
}

Status make_file(const turn::StoredTree& tree, const turn::TreeEntry& entry, int directory,
                 const std::string& name) {
  const sys::Fd fd(
      ::openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return failed(entry, "make");
  return write_content(tree, entry, fd.get());
}

Status make_node(const turn::StoredTree& tree, const turn::TreeEntry& entry, int directory,
                 const std::string& name) {
  mode_t kind = entry.type == 'p'   ? S_IFIFO
                : entry.type == 's' ? S_IFSOCK
                : entry.type == 'c' ? S_IFCHR
                                    : S_IFBLK;
  dev_t device = 0;
  if (entry.type == 'c' || entry.type == 'b') {
    TRY_ASSIGN(const auto number, tree.device(entry.digest));
    device = ::makedev(number.major, number.minor);
  }
  if (::mknodat(directory, name.c_str(), kind | 0600, device) < 0) return failed(entry, "make");
  return {};
}

Status set_xattrs(const turn::TreeEntry& entry, int directory, const std::string& name,
                  const std::vector<std::pair<std::string, std::string>>& xattrs) {
  if (xattrs.empty()) return {};
  // lsetxattr has no «at» form; the directory's own descriptor stands in for its path.
  const std::string path = "/proc/self/fd/" + std::to_string(directory) + "/" + name;
  for (const auto& [key, value] : xattrs) {
    if (::lsetxattr(path.c_str(), key.c_str(), value.data(), value.size(), 0) < 0)
      return failed(entry, ("set the attribute " + key + " of").c_str());
  }
  return {};
}

}  // namespace

Status make_entry(const turn::StoredTree& tree, const turn::TreeEntry& entry, int directory,
                  const std::string& name, const MadeAs& as) {
  switch (entry.type) {
    case 'd':
      if (::mkdirat(directory, name.c_str(), 0700) < 0) return failed(entry, "make");
      return {};
    case 'f':
      TRY(make_file(tree, entry, directory, name));
      break;
    case 'l': {
      TRY_ASSIGN(const std::string target, tree.target(entry.digest));
      if (::symlinkat(target.c_str(), directory, name.c_str()) < 0) return failed(entry, "make");
      break;
    }
    default:
      TRY(make_node(tree, entry, directory, name));
  }
  return finish_entry(entry, directory, name, as);
}

Status finish_entry(const turn::TreeEntry& entry, int directory, const std::string& name, const MadeAs& as) {
  if (as.owners == Owners::keep &&
      ::fchownat(directory, name.c_str(), entry.uid, entry.gid, AT_SYMLINK_NOFOLLOW) < 0) {
    return failed(entry, "give away");
  }
  if (as.xattrs != nullptr) TRY(set_xattrs(entry, directory, name, *as.xattrs));
  if (entry.type != 'l') {
    // fchmodat follows symlinks, and has no flag against it here: what stands there must be what was made.
    struct stat st;
    if (::fstatat(directory, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) < 0) return failed(entry, "look at");
    if (S_ISLNK(st.st_mode)) {
      errno = ELOOP;
      return failed(entry, "set the mode of");
    }
    if (::fchmodat(directory, name.c_str(), as.mode, 0) < 0) return failed(entry, "set the mode of");
  }
  const timespec times[2] = {{0, UTIME_OMIT},
                             {static_cast<time_t>(entry.mtime_sec), static_cast<long>(entry.mtime_nsec)}};
  if (::utimensat(directory, name.c_str(), times, AT_SYMLINK_NOFOLLOW) < 0)
    return failed(entry, "set the time of");
  return {};
}

}  // namespace turnbox::demand
