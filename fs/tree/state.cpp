#include "fs/tree/state.h"

#include <cerrno>
#include <cstring>

namespace turnbox::fs {

Expected<void> check_name(std::string_view name) {
  if (name.empty() || name == "." || name == "..") return err(EINVAL);
  if (name.size() > kMaxName) return err(ENAMETOOLONG);
  if (name.find('/') != name.npos || name.find('\0') != name.npos) return err(EINVAL);
  return {};
}

Expected<const Inode*> Tree::State::get(Ino ino) const {
  const Inode* inode = find(ino);
  if (inode == nullptr) return err(ENOENT);
  return inode;
}

Expected<const Inode*> Tree::State::directory(Ino ino) const {
  TRY_ASSIGN(const Inode* inode, get(ino));
  if (!inode->is_dir()) return err(ENOTDIR);
  if (inode->nlink == 0) return err(ENOENT);
  return inode;
}

Expected<void> Tree::State::may_change(const Inode& inode, const Caller& caller) const {
  if (caller.host) return {};
  switch (zones[inode.zone].state) {
    case ZoneState::writable:
      return {};
    case ZoneState::sealed:
      return err(EROFS);
    case ZoneState::stale:
      return err(ESTALE);
  }
  return err(EROFS);
}

Expected<const Inode*> Tree::State::name_place(Ino dir, std::string_view name, const Caller& caller) const {
  TRY_ASSIGN(const Inode* inode, directory(dir));
  TRY(check_name(name));
  TRY(may_change(*inode, caller));
  return inode;
}

Expected<Dirent> Tree::State::entry(const Inode& dir, std::string_view name) const {
  const auto found = Dir::find(dir.node, name);
  if (!found) return err(ENOENT);
  return *found;
}

Expected<uint64_t> Tree::State::new_cookie(const Inode& dir, std::string_view name) const {
  if (Dir::find(dir.node, name)) return err(EEXIST);
  const auto cookie = Dir::free_cookie(dir.node, name);
  if (!cookie) return err(ENOSPC);
  return *cookie;
}

Expected<void> Tree::State::room_for(uint64_t more_inodes, uint64_t more_name_bytes) const {
  if (more_inodes > 0 && counts().inodes + more_inodes > budget.inodes) return err(ENOSPC);
  if (more_name_bytes > 0 && counts().name_bytes + more_name_bytes > budget.name_bytes) return err(ENOSPC);
  return {};
}

Expected<void> Tree::State::room_for_xattrs(uint64_t more_bytes) const {
  if (more_bytes > 0 && counts().xattr_bytes + more_bytes > budget.xattr_bytes) return err(ENOSPC);
  return {};
}

Expected<void> Tree::State::room_for_pages(const Inode& inode, uint64_t offset, uint64_t size) {
  const uint64_t limit = budget.bytes >> kPageBits;
  const uint64_t at_most = (offset % kPageSize + size + kPageSize - 1) >> kPageBits;
  if (nodes.pages().pages() + at_most <= limit) return {};
  return room_for_new_pages(File::pages_needed(nodes, inode, offset, size));
}

Expected<void> Tree::State::room_for_new_pages(uint64_t needed) {
  const uint64_t limit = budget.bytes >> kPageBits;
  if (needed > limit) return err(ENOSPC);
  if (nodes.pages().pages() + needed <= limit) return {};
  // Space that is only waiting to be freed is no reason to refuse.
  while (nodes.pages().pages() + needed > limit && nodes.reclaim(500)) {
  }
  if (nodes.pages().pages() + needed > limit) return err(ENOSPC);
  return {};
}

Ino Tree::State::add_inode(Type type, uint16_t mode, ZoneId zone, Ino parent) {
  const Ino ino = counts().next_ino++;
  const Time time = now();
  Inode* inode = live.inodes.insert(nodes, ino);
  inode->type = type;
  inode->mode = mode & 07777;
  inode->zone = zone;
  inode->parent = parent;
  inode->epoch = nodes.epoch;
  inode->nlink = type == Type::directory ? 2 : 1;
  inode->set_atime(time);
  inode->set_mtime(time);
  inode->set_ctime(time);
  ++counts().inodes;
  return ino;
}

void Tree::State::add_name(Ino dir, const Dirent& entry, Time time) {
  Inode* parent = edit(dir);
  Dir::insert(nodes, parent->node, entry);
  ++parent->size;
  if (entry.type == Type::directory) ++parent->nlink;
  parent->set_mtime(time);
  parent->set_ctime(time);
  counts().name_bytes += entry.name.size();
}

void Tree::State::drop_name(Ino dir, uint64_t cookie, size_t name_size, Time time) {
  Inode* parent = edit(dir);
  Dir::erase(nodes, parent->node, cookie);
  --parent->size;
  parent->set_mtime(time);
  parent->set_ctime(time);
  counts().name_bytes -= name_size;
}

void Tree::State::drop_link(Ino ino, Time time) {
  Inode* inode = edit(ino);
  inode->set_ctime(time);
  inode->parent = kNoIno;  // which names are left is not known
  if (--inode->nlink > 0) return;
  ++counts().unnamed;
  if (!holds.holds(ino)) free_inode(ino);
}

void Tree::State::drop_directory(Ino ino, Time time) {
  Inode* inode = edit(ino);
  edit(inode->parent)->nlink--;
  inode = edit(ino);
  inode->set_ctime(time);
  inode->nlink = 0;
  ++counts().unnamed;
  if (!holds.holds(ino)) free_inode(ino);
}

void Tree::State::free_inode(Ino ino) {
  Inode* inode = edit(ino);
  if (inode->type == Type::symlink) counts().name_bytes -= inode->size;
  if (inode->is_file()) counts().file_pages -= inode->pages;
  if (inode->xattrs != nullptr) {
    counts().xattr_bytes -= Xattrs::bytes(inode->xattrs);
    nodes.release(inode->xattrs);
  }
  nodes.release_content(*inode);
  live.inodes.erase(nodes, ino);
  --counts().inodes;
  --counts().unnamed;
}

void Tree::State::set_target(Inode& inode, std::string_view target) {
  auto* blob = static_cast<Blob*>(nodes.make(NodeKind::blob, sizeof(Node) + target.size()));
  std::memcpy(blob->bytes(), target.data(), target.size());
  blob->count = static_cast<uint16_t>(target.size());
  inode.node = blob;
  inode.size = target.size();
  counts().name_bytes += target.size();
}

void Tree::State::put_xattr(Inode& inode, std::string_view name, std::span<const std::byte> value) {
  counts().xattr_bytes -= Xattrs::bytes(inode.xattrs);
  Xattrs::put(nodes, inode.xattrs, name, value);
  counts().xattr_bytes += Xattrs::bytes(inode.xattrs);
}

void Tree::State::erase_xattr(Inode& inode, std::string_view name) {
  counts().xattr_bytes -= Xattrs::bytes(inode.xattrs);
  Xattrs::erase(nodes, inode.xattrs, name);
  counts().xattr_bytes += Xattrs::bytes(inode.xattrs);
}

void Tree::State::kill_privileges(Inode& inode) {
  inode.mode = without_suidgid(inode.mode);
  if (inode.xattrs != nullptr) erase_xattr(inode, "security.capability");
}

}  // namespace turnbox::fs
