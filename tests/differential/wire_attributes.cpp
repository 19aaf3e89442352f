// Attributes and extended attributes.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <cerrno>
#include <cstring>

#include "tests/differential/wire_directory.h"

namespace turnbox::differential {

using support::FuseReply;
using support::pack;

namespace {

constexpr uint32_t kNobody = UINT32_MAX;  // «leave it» of chown(2)

timespec to_time(uint64_t seconds, uint32_t nanoseconds) {
  return {.tv_sec = static_cast<time_t>(seconds), .tv_nsec = static_cast<long>(nanoseconds)};
}

Stat to_stat(const fuse_attr& from) {
  return {.ino = from.ino,
          .mode = from.mode,
          .nlink = from.nlink,
          .uid = from.uid,
          .gid = from.gid,
          .rdev = makedev((from.rdev & 0xfff00) >> 8, (from.rdev & 0xff) | ((from.rdev >> 12) & 0xfff00)),
          .size = from.size,
          .blocks = from.blocks,
          .blksize = from.blksize,
          .atime = to_time(from.atime, from.atimensec),
          .mtime = to_time(from.mtime, from.mtimensec),
          .ctime = to_time(from.ctime, from.ctimensec)};
}

bool starts_with(const std::string& name, const char* prefix) {
  return name.rfind(prefix, 0) == 0;
}

}  // namespace

Answer WireDirectory::stat(const At& target, Stat& stat) {
  const Call call(*this);
  Node node;
  if (const Answer got = find(target, node); got < 0) return got;
  if (target.slot < 0 && calls_ % 2 == 0) {  // what LOOKUP says of a node, GETATTR says too
    if (const Answer got = getattr(node.id, node.attr); got < 0) return got;
  }
  stat = to_stat(node.attr);
  return 0;
}

Answer WireDirectory::setattr(uint64_t id, const fuse_setattr_in& in) {
  const FuseReply reply = ask(FUSE_SETATTR, id, pack(in));
  if (reply.error == 0 && reply.as<fuse_attr_out>().attr.ino == 0) return -EBADMSG;
  return -reply.error;
}

Answer WireDirectory::chmod(const At& target, uint32_t mode) {
  const Call call(*this);
  Node node;
  if (const Answer got = find({.path = target.path, .follow = true, .slot = target.slot}, node); got < 0)
    return got;
  if (!owns(node.attr)) return -EPERM;
  if (who_.uid != 0 && who_.gid != node.attr.gid) mode &= ~uint32_t{S_ISGID};
  fuse_setattr_in in{};
  in.valid = FATTR_MODE;
  in.mode = (node.attr.mode & S_IFMT) | (mode & 07777);
  return setattr(node.id, in);
}

Answer WireDirectory::chown(const At& target, uint32_t uid, uint32_t gid) {
  const Call call(*this);
  Node node;
  if (const Answer got = find(target, node); got < 0) return got;
  if (who_.uid != 0) {
    const bool owner = who_.uid == node.attr.uid;
    if (uid != kNobody && (!owner || uid != node.attr.uid)) return -EPERM;
    if (gid != kNobody && (!owner || (gid != who_.gid && gid != node.attr.gid))) return -EPERM;
  }
  fuse_setattr_in in{};  // of nothing, for -1 and -1
  if (uid != kNobody) in.valid |= FATTR_UID, in.uid = uid;
  if (gid != kNobody) in.valid |= FATTR_GID, in.gid = gid;
  if (in.valid != 0 && !S_ISDIR(node.attr.mode)) in.valid |= FATTR_KILL_SUIDGID;
  return setattr(node.id, in);
}

Answer WireDirectory::utimens(const At& target, const std::array<timespec, 2>& times) {
  const Call call(*this);
  const auto omit = [](const timespec& time) { return time.tv_nsec == UTIME_OMIT; };
  const auto now = [](const timespec& time) { return time.tv_nsec == UTIME_NOW; };
  if (target.slot >= 0 && !at(target.slot).used) return -EBADF;
  if (omit(times[0]) && omit(times[1])) return 0;  // the path is not even looked at
  Node node;
  if (const Answer got = find(target, node); got < 0) return got;
  if (now(times[0]) && now(times[1])) {
    if (!owns(node.attr) && !may(node.attr, 2)) return -EACCES;
  } else if (!owns(node.attr)) {
    return -EPERM;
  }
  fuse_setattr_in in{};
  if (!omit(times[0])) {
    in.valid |= now(times[0]) ? FATTR_ATIME | FATTR_ATIME_NOW : FATTR_ATIME;
    if (!now(times[0])) {
      in.atime = static_cast<uint64_t>(times[0].tv_sec);
      in.atimensec = static_cast<uint32_t>(times[0].tv_nsec);
    }
  }
  if (!omit(times[1])) {
    in.valid |= now(times[1]) ? FATTR_MTIME | FATTR_MTIME_NOW : FATTR_MTIME;
    if (!now(times[1])) {
      in.mtime = static_cast<uint64_t>(times[1].tv_sec);
      in.mtimensec = static_cast<uint32_t>(times[1].tv_nsec);
    }
  }
  return setattr(node.id, in);
}

// A kernel that keeps no times tells ftruncate(2) by the handle; truncate(2) and an open with O_TRUNC look
// the same.
Answer WireDirectory::set_size(uint64_t id, uint64_t size, const Open* open) {
  fuse_setattr_in in{};
  in.valid = FATTR_SIZE;
  in.size = size;
  if (open != nullptr) {
    in.valid |= FATTR_FH;
    in.fh = open->handle;
  }
  if (who_.uid != 0) in.valid |= FATTR_KILL_SUIDGID;
  return setattr(id, in);
}

Answer WireDirectory::truncate(const At& target, uint64_t size) {
  const Call call(*this);
  if (size > INT64_MAX) return -EINVAL;
  Node node;
  if (const Answer got = find({.path = target.path, .follow = true, .slot = target.slot}, node); got < 0)
    return got;
  if (target.slot >= 0) {
    const Open& open = at(target.slot);
    if (!S_ISREG(node.attr.mode) || !open.writes()) return -EINVAL;
    return set_size(node.id, size, &open);
  }
  if (S_ISDIR(node.attr.mode)) return -EISDIR;
  if (!S_ISREG(node.attr.mode)) return -EINVAL;
  if (!may(node.attr, 2)) return -EACCES;
  return set_size(node.id, size, nullptr);
}

Answer WireDirectory::may_xattr(const Node& node, const std::string& name, bool write) const {
  const bool root = who_.uid == 0;
  if (starts_with(name, "system.")) return 0;
  if (starts_with(name, "security.")) return write && !root ? -EPERM : 0;
  if (starts_with(name, "trusted.")) return root ? 0 : (write ? -EPERM : -ENODATA);
  if (starts_with(name, "user.")) {
    if (!S_ISREG(node.attr.mode) && !S_ISDIR(node.attr.mode)) return write ? -EPERM : -ENODATA;
    if (write && S_ISDIR(node.attr.mode) && (node.attr.mode & S_ISVTX) != 0 && !owns(node.attr))
      return -EPERM;
  }
  return may(node.attr, write ? 2 : 4) ? 0 : -EACCES;
}

Answer WireDirectory::setxattr(const At& target, const std::string& name, const std::string& value,
                               int flags) {
  const Call call(*this);
  if (target.slot >= 0 && !at(target.slot).used) return -EBADF;
  if ((flags & ~(XATTR_CREATE | XATTR_REPLACE)) != 0) return -EINVAL;
  if (name.empty() || name.size() > 255) return -ERANGE;
  if (value.size() > 65'536) return -E2BIG;
  Node node;
  if (const Answer got = find(target, node); got < 0) return got;
  if (const Answer got = may_xattr(node, name, true); got < 0) return got;
  fuse_setxattr_in in{};
  in.size = static_cast<uint32_t>(value.size());
  in.flags = static_cast<uint32_t>(flags);
  sys::Bytes head(long_setxattr_ ? sizeof in : 8U);
  std::memcpy(head.data(), &in, head.size());
  const auto bytes = sys::as_bytes(value);
  const FuseReply reply =
      ask(FUSE_SETXATTR, node.id, pack(head, name, sys::Bytes(bytes.begin(), bytes.end())));
  return reply.error == ENOSYS ? -EOPNOTSUPP : -reply.error;
}

Answer WireDirectory::getxattr(const At& target, const std::string& name, uint32_t room, std::string& value) {
  const Call call(*this);
  if (target.slot >= 0 && !at(target.slot).used) return -EBADF;
  if (name.empty() || name.size() > 255) return -ERANGE;
  Node node;
  if (const Answer got = find(target, node); got < 0) return got;
  if (const Answer got = may_xattr(node, name, false); got < 0) return got;
  fuse_getxattr_in in{};
  in.size = room;
  const FuseReply reply =
      ask(FUSE_GETXATTR, node.id, pack(in, name), sizeof(fuse_out_header) + std::max(room, 8U));
  if (reply.error != 0) return reply.error == ENOSYS ? -EOPNOTSUPP : -reply.error;
  if (room == 0) return static_cast<Answer>(reply.as<fuse_getxattr_out>().size);
  value = reply.text();
  return static_cast<Answer>(value.size());
}

Answer WireDirectory::listxattr(const At& target, uint32_t room, std::vector<std::string>& names) {
  const Call call(*this);
  Node node;
  if (const Answer got = find(target, node); got < 0) return got;
  fuse_getxattr_in in{};
  in.size = room;
  const FuseReply reply =
      ask(FUSE_LISTXATTR, node.id, pack(in), sizeof(fuse_out_header) + std::max(room, 8U));
  if (reply.error != 0) return reply.error == ENOSYS ? -EOPNOTSUPP : -reply.error;
  names.clear();
  if (room == 0) return static_cast<Answer>(reply.as<fuse_getxattr_out>().size);
  const std::string packed = reply.text();
  for (size_t i = 0; i < packed.size(); i += names.back().size() + 1) names.emplace_back(packed.c_str() + i);
  return static_cast<Answer>(packed.size());
}

Answer WireDirectory::removexattr(const At& target, const std::string& name) {
  const Call call(*this);
  if (target.slot >= 0 && !at(target.slot).used) return -EBADF;
  if (name.empty() || name.size() > 255) return -ERANGE;
  Node node;
  if (const Answer got = find(target, node); got < 0) return got;
  if (const Answer got = may_xattr(node, name, true); got < 0) return got;
  const FuseReply reply = ask(FUSE_REMOVEXATTR, node.id, pack(name));
  return reply.error == ENOSYS ? -EOPNOTSUPP : -reply.error;
}

}  // namespace turnbox::differential
