// Names: made, linked, moved, removed and listed.
#include "tests/differential/wire_directory.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <fstream>
#include <stdexcept>

namespace turnbox::differential {

using support::FusePeer;
using support::FuseReply;
using support::pack;

namespace {

// A kernel with a writeback cache keeps sizes and times to itself; here every call is to reach the server.
constexpr uint64_t kFlags = ~uint64_t{FUSE_WRITEBACK_CACHE};
constexpr uint64_t kSetxattrExt = uint64_t{1} << 29;

unsigned protected_level(const char* what) {
  unsigned level = 0;
  std::ifstream(std::string("/proc/sys/fs/protected_") + what) >> level;
  return level;
}

uint32_t encode(uint32_t major, uint32_t minor) {
  return (minor & 0xff) | (major << 8) | ((minor & ~0xffU) << 12);
}

}  // namespace

WireDirectory::WireDirectory(FusePeer& peer, Options options) : peer_(peer), options_(std::move(options)) {
  protected_ = {protected_level("hardlinks"), protected_level("symlinks"), protected_level("regular")};
  const FuseReply begun = peer_.init(kFlags);
  if (begun.error != 0) throw std::runtime_error("INIT was refused");
  const auto out = begun.as<fuse_init_out>();
  long_setxattr_ = (out.flags & kSetxattrExt) != 0;
  base_.id = peer_.walk(options_.base);
  if (base_.id == 0) throw std::runtime_error("no directory " + options_.base);
}

WireDirectory::~WireDirectory() {
  try {
    sweep();
  } catch (const std::exception&) {  // told where it happened first
  }
}

Answer WireDirectory::empty_out(const std::string& path) {
  std::vector<Entry> entries;
  if (const Answer got = list(path, entries); got < 0) return got;
  for (const Entry& entry : entries) {
    const bool directory = entry.type == 4 /* DT_DIR */;
    const std::string below = path.empty() ? entry.name : path + "/" + entry.name;
    if (const Answer got = directory ? empty_out(below) : 0; got < 0) return got;
    if (const Answer got = directory ? rmdir(below) : unlink(below); got < 0) return got;
  }
  return 0;
}

// Everything of the last episode goes: names, open files, counts.
void WireDirectory::sweep() {
  who_ = {};
  for (int slot = 0; slot < kSlots; ++slot) close(slot);
  if (root_.id != 0) {
    const std::string made = "episode" + std::to_string(entered_);
    const Answer emptied = empty_out("");
    const FuseReply removed = ask(FUSE_RMDIR, base_.id, pack(made));
    if (emptied != 0 || removed.error != 0) {
      throw std::runtime_error("cannot remove the directory of an episode, errno " +
                               std::to_string(-emptied) + " and " + std::to_string(removed.error));
    }
  }
  root_ = {};
  linkable_.clear();
  give_back(true);
  if (options_.rest) options_.rest();
}

void WireDirectory::enter() {
  sweep();
  const std::string made = "episode" + std::to_string(++entered_);
  const FuseReply reply = ask(FUSE_MKDIR, base_.id, pack(fuse_mkdir_in{.mode = 0755, .umask = 022}, made));
  if (reply.error != 0) throw std::runtime_error("cannot make the directory of an episode");
  root_ = take(reply.as<fuse_entry_out>());
}

Answer WireDirectory::mkdir(const std::string& path, uint32_t mode) {
  const Call call(*this);
  Walk to;
  if (const Answer got = place(path, to); got < 0) return got;
  const fuse_mkdir_in in{.mode = mode & 01777 & ~who_.umask, .umask = who_.umask};
  const FuseReply reply = ask(FUSE_MKDIR, to.dir().id, pack(in, to.last));
  if (reply.error == 0) take(reply.as<fuse_entry_out>());
  return -reply.error;
}

Answer WireDirectory::rmdir(const std::string& path) {
  const Call call(*this);
  Walk from;
  if (const Answer got = victim(path, from); got < 0) return got;
  return -ask(FUSE_RMDIR, from.dir().id, pack(from.last)).error;
}

Answer WireDirectory::mknod(const std::string& path, uint32_t mode, uint32_t major, uint32_t minor) {
  const Call call(*this);
  if (S_ISDIR(mode)) return -EPERM;
  Walk to;
  if (const Answer got = place(path, to); got < 0) return got;
  const bool device = S_ISCHR(mode) || S_ISBLK(mode);
  const bool whiteout = S_ISCHR(mode) && major == 0 && minor == 0;
  if (device && !whiteout && who_.uid != 0) return -EPERM;
  fuse_mknod_in in{};
  in.mode = mode_for(to.dir(), mode);
  in.rdev = device ? encode(major, minor) : 0;
  in.umask = who_.umask;
  const FuseReply reply = ask(FUSE_MKNOD, to.dir().id, pack(in, to.last));
  if (reply.error == 0) take(reply.as<fuse_entry_out>());
  return -reply.error;
}

Answer WireDirectory::symlink(const std::string& target, const std::string& path) {
  const Call call(*this);
  if (target.empty()) return -ENOENT;
  if (target.size() > 4095) return -ENAMETOOLONG;
  Walk to;
  if (const Answer got = place(path, to); got < 0) return got;
  const FuseReply reply = ask(FUSE_SYMLINK, to.dir().id, pack(to.last, target));
  if (reply.error == 0) take(reply.as<fuse_entry_out>());
  return -reply.error;
}

Answer WireDirectory::readlink(const std::string& path, std::string& target) {
  const Call call(*this);
  Node node;
  if (const Answer got = find({.path = path}, node); got < 0) return got;
  if (!S_ISLNK(node.attr.mode)) return -EINVAL;
  const FuseReply reply = ask(FUSE_READLINK, node.id, {});
  if (reply.error != 0) return -reply.error;
  target = reply.text();
  return static_cast<Answer>(target.size());
}

Answer WireDirectory::link(const At& from, const std::string& path) {
  const Call call(*this);
  Node node;
  if (const Answer got = find(from, node); got < 0) return got;
  Walk to;
  if (const Answer got = walk(path, false, to); got < 0) return got;
  if (to.found) return -EEXIST;
  const bool harmless = S_ISREG(node.attr.mode) && (node.attr.mode & S_ISUID) == 0 &&
                        (node.attr.mode & (S_ISGID | S_IXGRP)) != (S_ISGID | S_IXGRP) && may(node.attr, 6);
  if (protected_.hardlinks != 0 && !harmless && !owns(node.attr)) return -EPERM;
  if (!may(to.dir().attr, 3)) return -EACCES;
  if (S_ISDIR(node.attr.mode)) return -EPERM;
  if (node.attr.nlink == 0 && !linkable_.contains(node.id)) return -ENOENT;
  const FuseReply reply = ask(FUSE_LINK, to.dir().id, pack(fuse_link_in{node.id}, to.last));
  if (reply.error != 0) return -reply.error;
  take(reply.as<fuse_entry_out>());
  linkable_.erase(node.id);
  return 0;
}

Answer WireDirectory::unlink(const std::string& path) {
  const Call call(*this);
  Walk from;
  if (const Answer got = victim(path, from); got < 0) return got;
  return -ask(FUSE_UNLINK, from.dir().id, pack(from.last)).error;
}

Answer WireDirectory::rename_allowed(const Walk& from, const Walk& to, uint32_t flags) const {
  const bool exchange = (flags & RENAME_EXCHANGE) != 0;
  if (to.is_above(from.node.id)) return -EINVAL;
  if (to.found && from.is_above(to.node.id)) return exchange ? -EINVAL : -ENOTEMPTY;
  if (to.found && to.node.id == from.node.id) return 0;
  if (const Answer got = may_delete(from.dir(), from.node); got < 0) return got;
  if (!to.found) {
    if (!may(to.dir().attr, 3)) return -EACCES;
  } else if (const Answer got = may_delete(to.dir(), to.node); got < 0) {
    return got;
  }
  const bool moved_dir = S_ISDIR(from.node.attr.mode), other_dir = to.found && S_ISDIR(to.node.attr.mode);
  if (who_.uid != 0 && to.found && !exchange && moved_dir != other_dir) return moved_dir ? -ENOTDIR : -EISDIR;
  if (from.dir().id != to.dir().id) {  // «..» of a moved directory changes
    if (moved_dir && !may(from.node.attr, 2)) return -EACCES;
    if (exchange && other_dir && !may(to.node.attr, 2)) return -EACCES;
  }
  return 0;
}

Answer WireDirectory::rename(const std::string& old_path, const std::string& new_path, uint32_t flags) {
  const Call call(*this);
  if ((flags & ~uint32_t{RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT}) != 0) return -EINVAL;
  if ((flags & RENAME_EXCHANGE) != 0 && flags != RENAME_EXCHANGE) return -EINVAL;
  Walk from, to;
  const Answer old_walk = walk(old_path, false, from);
  if (old_walk < 0 && !from.at_last) return old_walk;
  const Answer new_walk = walk(new_path, false, to);
  if (new_walk < 0 && !to.at_last) return new_walk;  // both directories come before either name
  if (old_walk < 0) return old_walk;
  if (new_walk < 0) return from.found || from.last.empty() ? new_walk : -ENOENT;
  if (from.last.empty() || to.last.empty()) return -EBUSY;
  if (!from.found) return -ENOENT;
  if (to.found && (flags & RENAME_NOREPLACE) != 0) return -EEXIST;
  if (!to.found && (flags & RENAME_EXCHANGE) != 0) return -ENOENT;
  if (const Answer got = rename_allowed(from, to, flags); got < 0) return got;
  if (flags == 0) {
    return -ask(FUSE_RENAME, from.dir().id, pack(fuse_rename_in{to.dir().id}, from.last, to.last)).error;
  }
  const fuse_rename2_in in{.newdir = to.dir().id, .flags = flags, .padding = 0};
  return -ask(FUSE_RENAME2, from.dir().id, pack(in, from.last, to.last)).error;
}

Answer WireDirectory::list(const std::string& path, std::vector<Entry>& entries) {
  const Call call(*this);
  Node dir;
  if (const Answer got = find({.path = path}, dir); got < 0) return got;
  if (!S_ISDIR(dir.attr.mode)) return -ENOTDIR;
  if (!may(dir.attr, 4)) return -EACCES;
  uint64_t handle = 0;
  if (options_.handles) {
    const FuseReply opened = ask(FUSE_OPENDIR, dir.id, pack(fuse_open_in{}));
    if (opened.error != 0) return -opened.error;
    handle = opened.as<fuse_open_out>().fh;
  }
  const bool plus = !options_.handles && calls_ % 2 == 0;
  const uint32_t size = 600 + calls_ % 5 * 900;
  unsigned dots = 0;
  uint64_t cookie = 0;
  Answer wrong = 0;
  for (;;) {
    const FuseReply reply = peer_.readdir(dir.id, handle, cookie, size, plus);
    if (reply.error != 0) wrong = -reply.error;
    const auto some = FusePeer::entries(reply, plus);
    if (some.empty()) break;
    for (const auto& entry : some) {
      cookie = entry.cookie;
      if (plus && entry.plus.nodeid != 0) {
        take(entry.plus);
        if (entry.plus.attr.ino != entry.ino) wrong = -EBADMSG;
      }
      if (entry.name == "." || entry.name == "..") {
        ++dots;
      } else {
        entries.push_back({entry.name, entry.type, entry.ino});
      }
    }
  }
  if (options_.handles) {
    const fuse_release_in in{.fh = handle, .flags = 0, .release_flags = 0, .lock_owner = 0};
    if (ask(FUSE_RELEASEDIR, dir.id, pack(in)).error != 0) return -EBADMSG;
  }
  return wrong != 0 ? wrong : (dots == 2 ? 0 : -EBADMSG);
}

Answer WireDirectory::statfs(Space& space) {
  const Call call(*this);
  if (options_.rest) options_.rest();
  const FuseReply reply = ask(FUSE_STATFS, root_.id, {});
  if (reply.error != 0) return -reply.error;
  const auto out = reply.as<fuse_statfs_out>().st;
  space = {.blocks = out.blocks,
           .free_blocks = out.bfree,
           .files = out.files,
           .free_files = out.ffree,
           .name_max = out.namelen,
           .block_size = out.bsize};
  return 0;
}

}  // namespace turnbox::differential
