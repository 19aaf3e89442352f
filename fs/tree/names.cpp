// Verbs on names: create, link, unlink, rmdir. rename.cpp has the fourth.
#include <cerrno>

#include "fs/tree/state.h"

namespace turnbox::fs {
namespace {

constexpr uint16_t kSgid = 02000;

Expected<void> check_target(const Tree::NewNode& node) {
  if (node.type != Type::symlink) return {};
  if (node.target.empty()) return err(ENOENT);
  if (node.target.size() > kMaxTarget) return err(ENAMETOOLONG);
  if (node.target.find('\0') != node.target.npos) return err(EINVAL);
  return {};
}

uint16_t mode_of(const Tree::NewNode& node, const Inode& dir, const Caller& caller) {
  if (node.type == Type::symlink) return 0777;
  auto mode = static_cast<uint16_t>(node.mode & 07777 & ~caller.umask);
  if (node.type == Type::directory && (dir.mode & kSgid) != 0) mode |= kSgid;
  return mode;
}

}  // namespace

Expected<Attr> Tree::create(Ino dir, std::string_view name, const NewNode& node, const Caller& caller) {
  State& state = *state_;
  TRY_ASSIGN(const Inode* parent, state.name_place(dir, name, caller));
  if (node.zone && (!caller.host || *node.zone >= state.zones.size())) return err(EINVAL);
  TRY(check_target(node));
  TRY_ASSIGN(const uint64_t cookie, state.new_cookie(*parent, name));
  TRY(state.room_for(1, name.size() + node.target.size() * (node.type == Type::symlink)));

  const uint16_t mode = mode_of(node, *parent, caller);
  const uint32_t gid = (parent->mode & kSgid) != 0 ? parent->gid : caller.gid;
  const Ino ino = state.add_inode(node.type, mode, node.zone.value_or(parent->zone), dir);
  Inode* inode = state.edit(ino);
  inode->uid = caller.uid;
  inode->gid = gid;
  if (inode->is_device()) inode->pages = node.rdev;
  if (node.type == Type::symlink) state.set_target(*inode, node.target);
  const Time time = inode->mtime();
  state.add_name(dir, {ino, node.type, name, cookie}, time);
  state.settle();
  return attr_of(ino, *state.find(ino));
}

Expected<Attr> Tree::create_unnamed(Ino dir, uint16_t mode, const Caller& caller) {
  State& state = *state_;
  TRY_ASSIGN(const Inode* parent, state.directory(dir));
  TRY(state.may_change(*parent, caller));
  TRY(state.room_for(1, 0));

  const NewNode node{.mode = mode};
  const uint16_t bits = mode_of(node, *parent, caller);
  const uint32_t gid = (parent->mode & kSgid) != 0 ? parent->gid : caller.gid;
  const Ino ino = state.add_inode(Type::regular, bits, parent->zone, kLinkable);
  Inode* inode = state.edit(ino);
  inode->nlink = 0;
  inode->uid = caller.uid;
  inode->gid = gid;
  ++state.counts().unnamed;
  state.holds.add(ino, 1);
  const Attr attr = attr_of(ino, *inode);
  state.settle();
  return attr;
}

Expected<Attr> Tree::link(Ino ino, Ino dir, std::string_view name, const Caller& caller) {
  State& state = *state_;
  TRY_ASSIGN(const Inode* inode, state.get(ino));
  TRY_ASSIGN(const Inode* parent, state.name_place(dir, name, caller));
  if (inode->is_dir()) return err(EPERM);
  TRY_ASSIGN(const uint64_t cookie, state.new_cookie(*parent, name));
  if (inode->zone != parent->zone) return err(EXDEV);
  TRY(state.may_change(*inode, caller));
  if (inode->nlink == 0 && inode->parent != kLinkable) return err(ENOENT);  // its last name is gone
  if (inode->nlink >= kMaxLinks) return err(EMLINK);
  TRY(state.room_for(0, name.size()));

  const Time time = state.now();
  Inode* linked = state.edit(ino);
  if (linked->nlink++ == 0) --state.counts().unnamed;
  linked->parent = dir;
  linked->set_ctime(time);
  state.add_name(dir, {ino, linked->type, name, cookie}, time);
  state.settle();
  return attr_of(ino, *state.find(ino));
}

Expected<void> Tree::unlink(Ino dir, std::string_view name, const Caller& caller) {
  State& state = *state_;
  TRY_ASSIGN(const Inode* parent, state.name_place(dir, name, caller));
  TRY_ASSIGN(const Dirent entry, state.entry(*parent, name));
  if (entry.type == Type::directory) return err(EISDIR);
  TRY(state.may_change(*state.find(entry.ino), caller));

  const Time time = state.now();
  state.drop_name(dir, entry.cookie, name.size(), time);
  state.drop_link(entry.ino, time);
  state.settle();
  return {};
}

Expected<void> Tree::rmdir(Ino dir, std::string_view name, const Caller& caller) {
  State& state = *state_;
  TRY_ASSIGN(const Inode* parent, state.name_place(dir, name, caller));
  TRY_ASSIGN(const Dirent entry, state.entry(*parent, name));
  if (entry.type != Type::directory) return err(ENOTDIR);
  const Inode* inode = state.find(entry.ino);
  TRY(state.may_change(*inode, caller));
  if (inode->size > 0) return err(ENOTEMPTY);

  const Time time = state.now();
  state.drop_name(dir, entry.cookie, name.size(), time);
  state.drop_directory(entry.ino, time);
  state.settle();
  return {};
}

}  // namespace turnbox::fs
