// Attributes, and how long the kernel may keep them.
#include <sys/stat.h>

#include <cerrno>

#include "fs/fuse/server.h"
#include "vmm/sys/result.h"

namespace turnbox::fuse {
namespace {

constexpr double kLong = 86'400;  // seconds
constexpr blksize_t kBlock = 4096;
constexpr int kKnown = FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID | FUSE_SET_ATTR_SIZE |
                       FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW |
                       FUSE_SET_ATTR_MTIME_NOW | FUSE_SET_ATTR_CTIME;

mode_t type_bits(fs::Type type) {
  switch (type) {
    case fs::Type::regular:
      return S_IFREG;
    case fs::Type::directory:
      return S_IFDIR;
    case fs::Type::symlink:
      return S_IFLNK;
    case fs::Type::character:
      return S_IFCHR;
    case fs::Type::block:
      return S_IFBLK;
    case fs::Type::fifo:
      return S_IFIFO;
    case fs::Type::socket:
      return S_IFSOCK;
  }
  return 0;
}

timespec to_timespec(const fs::Time& time) {
  return {.tv_sec = time.sec, .tv_nsec = time.nsec};
}

fs::Time to_time(const timespec& time) {
  return {.sec = time.tv_sec, .nsec = static_cast<uint32_t>(time.tv_nsec)};
}

fs::Time wall_clock() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return to_time(now);
}

// `open`: by way of an open file.
fs::SetAttr to_set(const struct stat& attr, int valid, bool open) {
  fs::SetAttr set;
  const auto take = [&](int given, fs::SetAttr::Bits bit) {
    if ((valid & given) == 0) return false;
    set.valid |= bit;
    return true;
  };
  if (take(FUSE_SET_ATTR_MODE, fs::SetAttr::kMode)) set.mode = static_cast<uint16_t>(attr.st_mode & 07777);
  if (take(FUSE_SET_ATTR_UID, fs::SetAttr::kUid)) set.uid = attr.st_uid;
  if (take(FUSE_SET_ATTR_GID, fs::SetAttr::kGid)) set.gid = attr.st_gid;
  if (take(FUSE_SET_ATTR_SIZE, fs::SetAttr::kSize)) set.size = static_cast<uint64_t>(attr.st_size);
  const fs::Time now = wall_clock();  // one for both, as utimensat(2) has it
  if (take(FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_ATIME_NOW, fs::SetAttr::kAtime)) {
    set.atime = (valid & FUSE_SET_ATTR_ATIME_NOW) != 0 ? now : to_time(attr.st_atim);
  }
  if (take(FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW, fs::SetAttr::kMtime)) {
    set.mtime = (valid & FUSE_SET_ATTR_MTIME_NOW) != 0 ? now : to_time(attr.st_mtim);
  }
  if (take(FUSE_SET_ATTR_CTIME, fs::SetAttr::kCtime)) set.ctime = to_time(attr.st_ctim);
  if (open && (set.valid & fs::SetAttr::kSize) != 0 && (set.valid & fs::SetAttr::kMtime) == 0) {
    set.valid |= fs::SetAttr::kMtime;  // of ftruncate(2), though the size be the same
    set.mtime = now;
  }
  if (set.valid == 0) {  // chown(2) that names neither owner nor group
    set.valid = fs::SetAttr::kCtime;
    set.ctime = now;
  }
  return set;
}

}  // namespace

double Server::timeout() const {
  return options_.lasting ? kLong : 0;
}

struct stat Server::stat_of(const fs::Attr& attr) const {
  struct stat out {};
  out.st_ino = attr.ino;
  out.st_mode = type_bits(attr.type) | attr.mode;
  out.st_nlink = attr.nlink;
  out.st_uid = attr.uid;
  out.st_gid = attr.gid;
  out.st_rdev = attr.rdev;  // in the kernel's encoding, which libfuse hands on
  out.st_size = static_cast<off_t>(attr.size);
  out.st_blocks = static_cast<blkcnt_t>(attr.blocks);
  out.st_blksize = kBlock;
  out.st_atim = to_timespec(attr.atime);
  out.st_mtim = to_timespec(attr.mtime);
  out.st_ctim = to_timespec(attr.ctime);
  return out;
}

fuse_entry_param Server::entry_of(const fs::Attr& attr) const {
  return {.ino = number_of(attr.ino),
          .generation = 0,  // inode numbers are never used again
          .attr = stat_of(attr),
          .attr_timeout = timeout(),
          .entry_timeout = timeout()};
}

Server::Done Server::getattr(fuse_req_t req, fuse_ino_t number, fuse_file_info*) {
  TRY_ASSIGN(const fs::Ino ino, node(number));
  TRY_ASSIGN(const fs::Attr attr, view().getattr(ino));
  const struct stat out = stat_of(attr);
  fuse_reply_attr(req, &out, timeout());
  return {};
}

Server::Done Server::setattr(fuse_req_t req, fuse_ino_t number, struct stat* attr, int valid,
                             fuse_file_info* file) {
  TRY_ASSIGN(fs::Tree * tree, writable());
  if ((valid & ~kKnown) != 0) return fs::err(EINVAL);
  TRY_ASSIGN(const fs::Ino ino, node(number));
  TRY_ASSIGN(const fs::Attr now, tree->setattr(ino, to_set(*attr, valid, file != nullptr), caller(req)));
  const struct stat out = stat_of(now);
  fuse_reply_attr(req, &out, timeout());
  return {};
}

Server::Done Server::readlink(fuse_req_t req, fuse_ino_t number) {
  TRY_ASSIGN(const fs::Ino ino, node(number));
  TRY_ASSIGN(const std::string_view target, view().readlink(ino));
  fuse_reply_readlink(req, std::string(target).c_str());
  return {};
}

}  // namespace turnbox::fuse
