#include "tests/property/plain_model.h"

#include <algorithm>
#include <cerrno>

namespace turnbox::fs::plain {
namespace {

int bad_name(const std::string& name) {
  if (name.empty() || name == "." || name == "..") return EINVAL;
  if (name.size() > 255) return ENAMETOOLONG;
  return name.find('/') == name.npos && name.find('\0') == name.npos ? 0 : EINVAL;
}

uint16_t killed(uint16_t mode) {
  const bool group_exec = (mode & 010) != 0;
  return static_cast<uint16_t>(mode & ~04000 & (group_exec ? ~02000 : ~0));
}

bool is_dir(const Inode& inode) {
  return inode.attr.type == Type::directory;
}

}  // namespace

Attr State::attr(Ino ino) const {
  const Inode& inode = inodes.at(ino);
  Attr attr = inode.attr;
  attr.ino = ino;
  switch (attr.type) {
    case Type::directory:
      attr.size = inode.entries.size();
      break;
    case Type::symlink:
      attr.size = inode.target.size();
      break;
    default:
      attr.size = inode.size;
  }
  attr.blocks = (inode.pages.size() + inode.reserved.size()) * (kPage / 512);
  return attr;
}

std::string State::content(Ino ino, uint64_t offset, size_t size) const {
  const Inode& inode = inodes.at(ino);
  if (offset >= inode.size) return {};
  std::string bytes(std::min<uint64_t>(size, inode.size - offset), '\0');
  for (size_t i = 0; i < bytes.size();) {
    const uint64_t at = offset + i;
    const size_t piece = std::min(kPage - at % kPage, bytes.size() - i);
    if (const auto page = inode.pages.find(at / kPage); page != inode.pages.end()) {
      bytes.replace(i, piece, page->second, at % kPage, piece);
    }
    i += piece;
  }
  return bytes;
}

void Model::make_root(Ino ino, ZoneId zone, uint16_t mode) {
  Inode& root = state_.inodes[ino];
  root.attr = {.type = Type::directory,
               .mode = mode,
               .nlink = 2,
               .atime = now_,
               .mtime = now_,
               .ctime = now_,
               .zone = zone};
  root.parent = ino;
}

int Model::may_change(const Inode& inode, const Caller& caller) const {
  const ZoneState state = zones_.at(inode.attr.zone).state;
  if (caller.host || state == ZoneState::writable) return 0;
  return state == ZoneState::sealed ? EROFS : ESTALE;
}

int Model::place(Ino dir, const std::string& name, const Caller& caller) {
  const auto found = state_.inodes.find(dir);
  if (found == state_.inodes.end()) return ENOENT;
  if (!is_dir(found->second)) return ENOTDIR;
  if (found->second.attr.nlink == 0) return ENOENT;
  if (const int wrong = bad_name(name)) return wrong;
  return may_change(found->second, caller);
}

bool Model::below(Ino dir, Ino top) const {
  while (dir != top) {
    const Ino parent = state_.inodes.at(dir).parent;
    if (parent == dir) return false;
    dir = parent;
  }
  return true;
}

void Model::touch(Ino dir) {
  state_.inodes.at(dir).attr.mtime = state_.inodes.at(dir).attr.ctime = now_;
}

void Model::forget(Ino ino) {
  const Inode& inode = state_.inodes.at(ino);
  state_.name_bytes -= inode.target.size();
  for (const auto& [name, value] : inode.xattrs) state_.xattr_bytes -= name.size() + value.size();
  state_.inodes.erase(ino);
}

// One name of it is gone.
void Model::drop(Ino ino) {
  Inode& inode = state_.inodes.at(ino);
  inode.attr.ctime = now_;
  inode.attr.nlink = is_dir(inode) ? 0 : inode.attr.nlink - 1;
  if (inode.attr.nlink == 0 && !holds_.contains(ino)) forget(ino);
}

void Model::unhold(Ino ino) {
  if (--holds_.at(ino) > 0) return;
  holds_.erase(ino);
  if (state_.inodes.at(ino).attr.nlink == 0) forget(ino);
}

int Model::create(Ino dir, const std::string& name, const Tree::NewNode& node, const Caller& caller,
                  Ino number) {
  if (const int wrong = place(dir, name, caller)) return wrong;
  Inode& parent = state_.inodes.at(dir);
  const bool link = node.type == Type::symlink;
  if (link && node.target.empty()) return ENOENT;
  if (link && node.target.size() > 4095) return ENAMETOOLONG;
  if (parent.entries.contains(name)) return EEXIST;
  const uint64_t bytes = name.size() + (link ? node.target.size() : 0);
  if (state_.inodes.size() + 1 > budget_.inodes) return ENOSPC;
  if (state_.name_bytes + bytes > budget_.name_bytes) return ENOSPC;

  Inode made;
  const bool setgid = (parent.attr.mode & 02000) != 0;
  made.attr = {.type = node.type,
               .mode = static_cast<uint16_t>(link ? 0777 : node.mode & ~caller.umask),
               .nlink = node.type == Type::directory ? 2u : 1u,
               .uid = caller.uid,
               .gid = setgid ? parent.attr.gid : caller.gid,
               .atime = now_,
               .mtime = now_,
               .ctime = now_,
               .zone = node.zone.value_or(parent.attr.zone)};
  if (node.type == Type::character || node.type == Type::block) made.attr.rdev = node.rdev;
  if (link) made.target = node.target;
  if (node.type == Type::directory) {
    made.parent = dir;
    ++parent.attr.nlink;
    if (setgid) made.attr.mode |= 02000;
  }
  parent.entries[name] = number;
  state_.inodes[number] = made;
  state_.name_bytes += bytes;
  touch(dir);
  return 0;
}

int Model::link(Ino ino, Ino dir, const std::string& name, const Caller& caller) {
  const auto found = state_.inodes.find(ino);
  if (found == state_.inodes.end()) return ENOENT;
  if (const int wrong = place(dir, name, caller)) return wrong;
  Inode& inode = found->second;
  Inode& parent = state_.inodes.at(dir);
  if (is_dir(inode)) return EPERM;
  if (parent.entries.contains(name)) return EEXIST;
  if (inode.attr.zone != parent.attr.zone) return EXDEV;
  if (const int wrong = may_change(inode, caller)) return wrong;
  if (inode.attr.nlink == 0 && !inode.linkable) return ENOENT;
  if (state_.name_bytes + name.size() > budget_.name_bytes) return ENOSPC;
  parent.entries[name] = ino;
  ++inode.attr.nlink;
  inode.linkable = false;
  inode.attr.ctime = now_;
  state_.name_bytes += name.size();
  touch(dir);
  return 0;
}

int Model::unlink(Ino dir, const std::string& name, const Caller& caller) {
  if (const int wrong = place(dir, name, caller)) return wrong;
  Inode& parent = state_.inodes.at(dir);
  const auto entry = parent.entries.find(name);
  if (entry == parent.entries.end()) return ENOENT;
  const Ino ino = entry->second;
  if (is_dir(state_.inodes.at(ino))) return EISDIR;
  if (const int wrong = may_change(state_.inodes.at(ino), caller)) return wrong;
  parent.entries.erase(entry);
  state_.name_bytes -= name.size();
  touch(dir);
  drop(ino);
  return 0;
}

int Model::rmdir(Ino dir, const std::string& name, const Caller& caller) {
  if (const int wrong = place(dir, name, caller)) return wrong;
  Inode& parent = state_.inodes.at(dir);
  const auto entry = parent.entries.find(name);
  if (entry == parent.entries.end()) return ENOENT;
  const Ino ino = entry->second;
  if (!is_dir(state_.inodes.at(ino))) return ENOTDIR;
  if (const int wrong = may_change(state_.inodes.at(ino), caller)) return wrong;
  if (!state_.inodes.at(ino).entries.empty()) return ENOTEMPTY;
  parent.entries.erase(entry);
  --parent.attr.nlink;
  state_.name_bytes -= name.size();
  touch(dir);
  drop(ino);
  return 0;
}

int Model::rename(Ino from, const std::string& old_name, Ino to, const std::string& new_name, uint32_t flags,
                  const Caller& caller, Ino number) {
  const bool no_replace = (flags & 1) != 0, exchange = (flags & 2) != 0, whiteout = (flags & 4) != 0;
  if (flags > 7 || (exchange && flags != 2)) return EINVAL;
  if (const int wrong = place(from, old_name, caller)) return wrong;
  if (const int wrong = place(to, new_name, caller)) return wrong;
  Inode& source = state_.inodes.at(from);
  Inode& destination = state_.inodes.at(to);
  if (source.attr.zone != destination.attr.zone && !caller.host) return EXDEV;
  if (!source.entries.contains(old_name)) return ENOENT;
  const Ino moved = source.entries.at(old_name);
  if (const int wrong = may_change(state_.inodes.at(moved), caller)) return wrong;
  const bool there = destination.entries.contains(new_name);
  const Ino target = there ? destination.entries.at(new_name) : kNoIno;
  if (there) {
    if (const int wrong = may_change(state_.inodes.at(target), caller)) return wrong;
  }
  if (there && no_replace) return EEXIST;
  if (!there && exchange) return ENOENT;
  const bool moved_dir = is_dir(state_.inodes.at(moved));
  if (moved_dir && below(to, moved)) return EINVAL;
  const bool target_dir = there && is_dir(state_.inodes.at(target));
  if (there && target != moved) {
    if (exchange) {
      if (target_dir && below(from, target)) return EINVAL;
    } else {
      if (moved_dir && !target_dir) return ENOTDIR;
      if (!moved_dir && target_dir) return EISDIR;
      if (target_dir && !state_.inodes.at(target).entries.empty()) return ENOTEMPTY;
    }
  }
  const uint64_t less = whiteout ? 0 : old_name.size();
  if (!there && new_name.size() > less && state_.name_bytes + new_name.size() - less > budget_.name_bytes) {
    return ENOSPC;
  }
  if (there && target == moved) return 0;
  if (whiteout && state_.inodes.size() + 1 > budget_.inodes) return ENOSPC;

  const auto adopt = [this](Ino ino, Ino old_dir, Ino new_dir) {
    Inode& inode = state_.inodes.at(ino);
    inode.attr.ctime = now_;
    if (!is_dir(inode)) return;
    inode.parent = new_dir;
    --state_.inodes.at(old_dir).attr.nlink;
    ++state_.inodes.at(new_dir).attr.nlink;
  };
  if (exchange) {
    source.entries[old_name] = target;
    adopt(target, to, from);
  } else {
    source.entries.erase(old_name);
    state_.name_bytes -= old_name.size();
    if (whiteout) {
      Inode made;
      made.attr = {.type = Type::character,
                   .nlink = 1,
                   .uid = caller.uid,
                   .gid = (source.attr.mode & 02000) != 0 ? source.attr.gid : caller.gid,
                   .atime = now_,
                   .mtime = now_,
                   .ctime = now_,
                   .zone = source.attr.zone};
      source.entries[old_name] = number;
      state_.inodes[number] = made;
      state_.name_bytes += old_name.size();
    }
    if (!there) state_.name_bytes += new_name.size();
  }
  destination.entries[new_name] = moved;
  adopt(moved, from, to);
  touch(from);
  touch(to);
  if (there && !exchange) {
    if (target_dir) --destination.attr.nlink;
    drop(target);
  }
  return 0;
}

int Model::setattr(Ino ino, const SetAttr& set, const Caller& caller) {
  const auto found = state_.inodes.find(ino);
  if (found == state_.inodes.end()) return ENOENT;
  Inode& inode = found->second;
  if (const int wrong = may_change(inode, caller)) return wrong;
  const auto has = [&](uint32_t bit) { return (set.valid & bit) != 0; };
  if (has(SetAttr::kSize)) {
    if (is_dir(inode)) return EISDIR;
    if (inode.attr.type != Type::regular) return EINVAL;
    if (set.size >> 63 != 0) return EFBIG;
  }
  if (set.valid == 0) return 0;
  const Attr now = state_.attr(ino);
  const bool timeless = has(SetAttr::kSize) && (set.valid & ~(SetAttr::kSize | SetAttr::kKillSuidgid)) == 0 &&
                        set.size == now.size && set.size != 0 && now.blocks == 0;
  if (!is_dir(inode) && has(SetAttr::kUid | SetAttr::kGid | SetAttr::kKillSuidgid)) {
    kill_privileges(inode);
  }
  if (has(SetAttr::kMode)) inode.attr.mode = set.mode;
  if (has(SetAttr::kUid)) inode.attr.uid = set.uid;
  if (has(SetAttr::kGid)) inode.attr.gid = set.gid;
  if (has(SetAttr::kSize)) {
    if (!timeless) inode.attr.mtime = now_;
    const bool grows = set.size > inode.size;
    inode.size = set.size;
    if (!grows)
      inode.reserved.erase(inode.reserved.lower_bound(set.size / kPage + (set.size % kPage != 0)),
                           inode.reserved.end());
    inode.pages.erase(inode.pages.lower_bound(set.size / kPage + (set.size % kPage != 0)), inode.pages.end());
    const auto last = inode.pages.find(set.size / kPage);
    if (last != inode.pages.end())
      last->second.replace(set.size % kPage, kPage, kPage - set.size % kPage, '\0');
  }
  if (has(SetAttr::kAtime)) inode.attr.atime = set.atime;
  if (has(SetAttr::kMtime)) inode.attr.mtime = set.mtime;
  if (!timeless) inode.attr.ctime = has(SetAttr::kCtime) ? set.ctime : now_;
  return 0;
}

int Model::write(Ino ino, uint64_t offset, const std::string& bytes, bool kill, const Caller& caller) {
  const auto found = state_.inodes.find(ino);
  if (found == state_.inodes.end()) return ENOENT;
  Inode& inode = found->second;
  if (is_dir(inode)) return EISDIR;
  if (inode.attr.type != Type::regular) return EINVAL;
  if (const int wrong = may_change(inode, caller)) return wrong;
  if (offset + bytes.size() > (uint64_t{1} << 63) - 1) return EFBIG;
  if (bytes.empty()) return 0;
  put(inode, offset, bytes);
  if (kill) kill_privileges(inode);
  inode.attr.mtime = inode.attr.ctime = now_;
  return 0;
}

void Model::put(Inode& inode, uint64_t offset, const std::string& bytes) {
  for (size_t i = 0; i < bytes.size();) {
    const uint64_t at = offset + i;
    const size_t piece = std::min(kPage - at % kPage, bytes.size() - i);
    std::string& page = inode.pages[at / kPage];
    inode.reserved.erase(at / kPage);
    page.resize(kPage);
    page.replace(at % kPage, piece, bytes, i, piece);
    i += piece;
  }
  inode.size = std::max<uint64_t>(inode.size, offset + bytes.size());
}

void Model::kill_privileges(Inode& inode) {
  inode.attr.mode = killed(inode.attr.mode);
  const auto found = inode.xattrs.find("security.capability");
  if (found == inode.xattrs.end()) return;
  state_.xattr_bytes -= found->first.size() + found->second.size();
  inode.xattrs.erase(found);
}

}  // namespace turnbox::fs::plain
