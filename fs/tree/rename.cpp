// rename(2) and its flags, for two names at once: all is checked first, then done.
#include <algorithm>
#include <cerrno>
#include <string>

#include "fs/tree/state.h"

namespace turnbox::fs {
namespace {

// Whether `dir` is `top` or stands below it.
bool below(const Tree& tree, Ino dir, Ino top) {
  for (;;) {
    if (dir == top) return true;
    const Ino parent = *tree.parent(dir);
    if (parent == dir) return false;
    dir = parent;
  }
}

// What may take the place of what.
Expected<void> check_types(const Dirent& moved, const Dirent& replaced, const Inode& replaced_inode) {
  const bool moved_dir = moved.type == Type::directory, replaced_dir = replaced.type == Type::directory;
  if (moved_dir && !replaced_dir) return err(ENOTDIR);
  if (!moved_dir && replaced_dir) return err(EISDIR);
  if (replaced_dir && replaced_inode.size > 0) return err(ENOTEMPTY);
  return {};
}

}  // namespace

struct Tree::Rename {
  State& state;
  Ino from, to;
  std::string old_name, new_name;  // copies: the tree's own bytes move
  Dirent moved{};
  std::optional<Dirent> target{};

  Expected<void> check(const Tree& tree, uint32_t flags, const Caller& caller);
  void exchange();
  void replace(bool whiteout, const Caller& caller);
  void leave_whiteout(const Caller& caller, Time time);
  void set_parent(const Dirent& entry, Ino dir, Time time);
};

Expected<void> Tree::Rename::check(const Tree& tree, uint32_t flags, const Caller& caller) {
  if ((flags & ~uint32_t{kNoReplace | kExchange | kWhiteout}) != 0) return err(EINVAL);
  if ((flags & kExchange) != 0 && flags != kExchange) return err(EINVAL);
  TRY_ASSIGN(const Inode* source, state.name_place(from, old_name, caller));
  TRY_ASSIGN(const Inode* destination, state.name_place(to, new_name, caller));
  if (source->zone != destination->zone && !caller.host) return err(EXDEV);
  TRY_ASSIGN(moved, state.entry(*source, old_name));
  TRY(state.may_change(*state.find(moved.ino), caller));
  target = Dir::find(destination->node, new_name);
  if (target) TRY(state.may_change(*state.find(target->ino), caller));
  if (target && (flags & kNoReplace) != 0) return err(EEXIST);
  if (!target && (flags & kExchange) != 0) return err(ENOENT);
  if (moved.type == Type::directory && below(tree, to, moved.ino)) return err(EINVAL);
  if (target && target->ino != moved.ino) {
    if ((flags & kExchange) == 0) {
      TRY(check_types(moved, *target, *state.find(target->ino)));
    } else if (target->type == Type::directory && below(tree, from, target->ino)) {
      return err(EINVAL);
    }
  }
  const bool whiteout = (flags & kWhiteout) != 0 && !(target && target->ino == moved.ino);
  const uint64_t kept = whiteout ? 0 : old_name.size();  // of name bytes
  if (!target && !Dir::free_cookie(destination->node, new_name)) return err(ENOSPC);
  TRY(state.room_for(whiteout ? 1 : 0, target ? 0 : std::max(new_name.size(), kept) - kept));
  return {};
}

void Tree::Rename::set_parent(const Dirent& entry, Ino dir, Time time) {
  Inode* inode = state.edit(entry.ino);
  inode->parent = dir;
  inode->set_ctime(time);
}

void Tree::Rename::exchange() {
  const Time time = state.now();
  const auto repoint = [&](Ino dir, const Dirent& at, const Dirent& to_entry) {
    Inode* inode = state.edit(dir);
    Dir::repoint(state.nodes, inode->node, at.cookie, to_entry.ino, to_entry.type);
    if (at.type == Type::directory) --inode->nlink;
    if (to_entry.type == Type::directory) ++inode->nlink;
    inode->set_mtime(time);
    inode->set_ctime(time);
  };
  repoint(from, moved, *target);
  repoint(to, *target, moved);
  set_parent(moved, to, time);
  set_parent(*target, from, time);
}

// The old name goes on, for a character device 0:0: what an overlay takes for «removed here».
void Tree::Rename::leave_whiteout(const Caller& caller, Time time) {
  const Inode* dir = state.find(from);
  const uint32_t gid = (dir->mode & 02000) != 0 ? dir->gid : caller.gid;
  const Ino ino = state.add_inode(Type::character, 0, dir->zone, from);
  Inode* inode = state.edit(ino);
  inode->uid = caller.uid;
  inode->gid = gid;
  Inode* parent = state.edit(from);
  Dir::repoint(state.nodes, parent->node, moved.cookie, ino, Type::character);
  parent->set_mtime(time);
  parent->set_ctime(time);
}

void Tree::Rename::replace(bool whiteout, const Caller& caller) {
  const Time time = state.now();
  if (whiteout) {
    leave_whiteout(caller, time);
  } else {
    state.drop_name(from, moved.cookie, old_name.size(), time);
  }
  if (moved.type == Type::directory) --state.edit(from)->nlink;
  if (target) {
    Inode* inode = state.edit(to);
    Dir::repoint(state.nodes, inode->node, target->cookie, moved.ino, moved.type);
    if (moved.type == Type::directory) ++inode->nlink;
    inode->set_mtime(time);
    inode->set_ctime(time);
  } else {
    // Asked again: the old name may have freed a rank of the same hash.
    const uint64_t cookie = *Dir::free_cookie(state.find(to)->node, new_name);
    state.add_name(to, {moved.ino, moved.type, new_name, cookie}, time);
  }
  set_parent(moved, to, time);
  if (!target) return;
  if (target->type == Type::directory) {
    state.drop_directory(target->ino, time);
  } else {
    state.drop_link(target->ino, time);
  }
}

Expected<void> Tree::rename(Ino from, std::string_view old_name, Ino to, std::string_view new_name,
                            uint32_t flags, const Caller& caller) {
  Rename rename{*state_, from, to, std::string(old_name), std::string(new_name)};
  TRY(rename.check(*this, flags, caller));
  if (rename.target && rename.target->ino == rename.moved.ino) return {};  // one file: nothing to do (POSIX)
  if ((flags & kExchange) != 0) {
    rename.exchange();
  } else {
    rename.replace((flags & kWhiteout) != 0, caller);
  }
  state_->settle();
  return {};
}

}  // namespace turnbox::fs
