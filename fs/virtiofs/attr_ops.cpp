// Attributes, and what of them and of names the guest may keep.

#include <sys/stat.h>

#include <cerrno>

#include "fs/virtiofs/server.h"
#include "vmm/sys/result.h"

namespace turnbox::virtiofs {

namespace {

constexpr uint32_t kKnownSetBits = FATTR_MODE | FATTR_UID | FATTR_GID | FATTR_SIZE | FATTR_ATIME |
                                   FATTR_MTIME | FATTR_FH | FATTR_ATIME_NOW | FATTR_MTIME_NOW |
                                   FATTR_LOCKOWNER | FATTR_CTIME | FATTR_KILL_SUIDGID;
constexpr uint32_t kNoId = UINT32_MAX;  // «leave it» in chown(2): never an owner
constexpr uint32_t kMaxNsec = 999'999'999;

uint32_t type_bits(fs::Type type) {
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

fuse_attr to_wire(const fs::Attr& attr) {
  return {
      .ino = attr.ino,
      .size = attr.size,
      .blocks = attr.blocks,
      .atime = static_cast<uint64_t>(attr.atime.sec),
      .mtime = static_cast<uint64_t>(attr.mtime.sec),
      .ctime = static_cast<uint64_t>(attr.ctime.sec),
      .atimensec = attr.atime.nsec,
      .mtimensec = attr.mtime.nsec,
      .ctimensec = attr.ctime.nsec,
      .mode = type_bits(attr.type) | attr.mode,
      .nlink = attr.nlink,
      .uid = attr.uid,
      .gid = attr.gid,
      .rdev = attr.rdev,
      .blksize = kPageSize,
      .flags = 0,
  };
}

fs::Expected<fs::Time> to_time(uint64_t sec, uint32_t nsec) {
  if (nsec > kMaxNsec) return fs::err(EINVAL);
  return fs::Time{.sec = static_cast<int64_t>(sec), .nsec = nsec};
}

}  // namespace

// A name lasts as long as its directory's zone allows, attributes as long as the node's own zone does.
fuse_entry_out Server::entry_of(const fs::Attr& attr, fs::ZoneUse parent_use) const {
  return {
      .nodeid = session_.node_id(attr.ino),
      .generation = 0,  // inode numbers are never used again
      .entry_valid = timeout(parent_use),
      .attr_valid = timeout(zone_of(attr).use),
      .entry_valid_nsec = 0,
      .attr_valid_nsec = 0,
      .attr = to_wire(attr),
  };
}

fuse_attr_out Server::attr_of(const fs::Attr& attr) const {
  return {.attr_valid = timeout(zone_of(attr).use), .attr_valid_nsec = 0, .dummy = 0, .attr = to_wire(attr)};
}

fs::Expected<void> Server::getattr(const Request& request, Reply& reply) {
  TRY_ASSIGN(const fs::Attr attr, tree_.getattr(request.ino));
  const auto in = request.arg<fuse_getattr_in>();
  if (is_turn() && (in.getattr_flags & FUSE_GETATTR_FH) != 0) {
    TRY(handle(in.fh, request.ino, attr.type == fs::Type::directory));
  }
  return reply.put_value(attr_of(attr));
}

fs::Expected<fs::SetAttr> Server::to_set(const fuse_setattr_in& in) const {
  if ((in.valid & ~kKnownSetBits) != 0) return fs::err(EINVAL);
  fs::SetAttr set;
  if ((in.valid & FATTR_MODE) != 0) {
    set.valid |= fs::SetAttr::kMode;
    set.mode = static_cast<uint16_t>(in.mode & 07777);
  }
  if ((in.valid & FATTR_UID) != 0) {
    if (in.uid == kNoId) return fs::err(EINVAL);
    set.valid |= fs::SetAttr::kUid;
    set.uid = in.uid;
  }
  if ((in.valid & FATTR_GID) != 0) {
    if (in.gid == kNoId) return fs::err(EINVAL);
    set.valid |= fs::SetAttr::kGid;
    set.gid = in.gid;
  }
  if ((in.valid & FATTR_SIZE) != 0) {
    if (in.size > kMaxOffset) return fs::err(EFBIG);
    set.valid |= fs::SetAttr::kSize;
    set.size = in.size;
  }
  if ((in.valid & (FATTR_ATIME | FATTR_ATIME_NOW)) != 0) {
    set.valid |= fs::SetAttr::kAtime;
    TRY_ASSIGN(set.atime,
               (in.valid & FATTR_ATIME_NOW) != 0 ? options_.now() : to_time(in.atime, in.atimensec));
  }
  if ((in.valid & (FATTR_MTIME | FATTR_MTIME_NOW)) != 0) {
    set.valid |= fs::SetAttr::kMtime;
    TRY_ASSIGN(set.mtime,
               (in.valid & FATTR_MTIME_NOW) != 0 ? options_.now() : to_time(in.mtime, in.mtimensec));
  }
  if ((in.valid & FATTR_SIZE) != 0 && (in.valid & FATTR_FH) != 0 && (in.valid & FATTR_MTIME) == 0) {
    set.valid |= fs::SetAttr::kMtime;  // of ftruncate(2), though the size be the same
    set.mtime = options_.now();
  }
  if ((in.valid & FATTR_CTIME) != 0) {  // under writeback the guest's clock stamps what the guest changed
    set.valid |= fs::SetAttr::kCtime;
    TRY_ASSIGN(set.ctime, to_time(in.ctime, in.ctimensec));
  }
  if ((in.valid & FATTR_KILL_SUIDGID) != 0) set.valid |= fs::SetAttr::kKillSuidgid;
  return set;
}

// chown(2) that names neither owner nor group arrives as a SETATTR of nothing: it moves ctime and ends suid and sgid.
// The same request comes before a write by somebody who may not keep them, and must pass; from anybody but the owner
// it ends nothing, since the write says itself what goes, and a chown has no right to.
fs::Expected<fs::SetAttr> Server::of_nothing(const Request& request) const {
  TRY_ASSIGN(const fs::Attr attr, tree_.getattr(request.ino));
  fs::SetAttr set{.valid = fs::SetAttr::kCtime, .ctime = options_.now()};
  if (request.head.uid == 0 || request.head.uid == attr.uid) set.valid |= fs::SetAttr::kKillSuidgid;
  return set;
}

fs::Expected<void> Server::setattr(const Request& request, Reply& reply) {
  const auto in = request.arg<fuse_setattr_in>();
  auto set = in.valid == 0 ? of_nothing(request) : to_set(in);
  if (!set) {
    return set.error() == fs::Errno{EINVAL} ? malformed(EINVAL, request.head, "attributes to set")
                                            : tl::make_unexpected(set.error());
  }
  if ((set->valid & fs::SetAttr::kSize) != 0) {
    TRY_ASSIGN(const fs::Zone zone, zone_of(request.ino));
    if (zone.use == fs::ZoneUse::log) return fs::err(EPERM);
    if (is_turn() && (in.valid & FATTR_FH) != 0) {
      TRY_ASSIGN(const Handle at, handle(in.fh, request.ino, false));
      if (!at.writable) return fs::err(EBADF);
    }
  }
  TRY_ASSIGN(const fs::Attr attr, tree_.setattr(request.ino, *set, request.caller()));
  return reply.put_value(attr_of(attr));
}

fs::Expected<void> Server::readlink(const Request& request, Reply& reply) {
  TRY_ASSIGN(const std::string_view target, tree_.readlink(request.ino));
  return reply.put(sys::as_bytes(target));
}

}  // namespace turnbox::virtiofs
