// A copy of a file, symlink or directory that shares its pages with the original.
#include <cerrno>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "fs/tree/state.h"
#include "fs/tree/walk.h"

namespace turnbox::fs {
namespace {

uint64_t target_bytes(const Inode& inode) {
  return inode.type == Type::symlink ? inode.size : 0;
}

// What a copy would take, counted before anything is made.
struct Cost {
  uint64_t inodes = 0, name_bytes = 0, xattr_bytes = 0;
  std::unordered_set<Ino> linked;  // those with several names, counted once

  bool enter(const Step& step) {
    name_bytes += step.name.size();
    if (step.inode.is_dir() || step.inode.nlink == 1 || linked.insert(step.ino).second) {
      ++inodes;
      name_bytes += target_bytes(step.inode);
      xattr_bytes += Xattrs::bytes(step.inode.xattrs);
    }
    return true;
  }
  void leave(const Step&) {}
};

}  // namespace

struct Tree::Cloner {
  State& state;
  ZoneId zone;
  Ino top_dir;
  std::string top_name;
  uint64_t top_cookie;
  Time time;
  std::vector<Ino> dirs{};                // the copies we are in
  std::unordered_map<Ino, Ino> linked{};  // original → copy, of those with several names
  Ino top = kNoIno;

  bool enter(const Step& step);
  void leave(const Step& step);
  Ino copy_inode(const Inode& from, Ino dir);
};

Ino Tree::Cloner::copy_inode(const Inode& from, Ino dir) {
  const Ino ino = state.add_inode(from.type, from.mode, zone, dir);
  Inode* copy = state.edit(ino);
  copy->uid = from.uid;
  copy->gid = from.gid;
  copy->set_atime({from.atime_sec, from.atime_nsec});
  copy->set_mtime(from.mtime());
  copy->pages = from.pages;
  if (from.xattrs != nullptr) {
    copy->xattrs = from.xattrs;
    state.nodes.retain(from.xattrs);
    state.counts().xattr_bytes += Xattrs::bytes(from.xattrs);
  }
  if (from.is_dir()) return ino;
  if (from.is_file()) state.counts().file_pages += from.pages;
  copy->size = from.size;
  copy->height = from.height;
  copy->node = from.node;
  state.nodes.retain_content(*copy);
  state.counts().name_bytes += target_bytes(from);
  return ino;
}

bool Tree::Cloner::enter(const Step& step) {
  const Ino dir = dirs.empty() ? top_dir : dirs.back();
  const std::string name = dirs.empty() ? top_name : std::string(step.name);
  Ino copy = kNoIno;
  if (!step.inode.is_dir() && step.inode.nlink > 1) copy = linked[step.ino];
  if (copy == kNoIno) {
    copy = copy_inode(step.inode, dir);
    if (!step.inode.is_dir() && step.inode.nlink > 1) linked[step.ino] = copy;
  } else {
    ++state.edit(copy)->nlink;
  }
  // A cookie is asked for again: ranks follow the order of arrival.
  const uint64_t cookie = dirs.empty() ? top_cookie : *Dir::free_cookie(state.find(dir)->node, name);
  state.add_name(dir, {copy, step.inode.type, name, cookie}, time);
  if (dirs.empty()) top = copy;
  if (step.inode.is_dir()) dirs.push_back(copy);
  return true;
}

void Tree::Cloner::leave(const Step& step) {
  state.edit(dirs.back())->set_mtime(step.inode.mtime());
  dirs.pop_back();
}

Expected<Attr> Tree::clone(const View& view, Ino from, Ino dir, std::string_view name, ZoneId zone) {
  State& state = *state_;
  const Caller host{.host = true};
  TURNBOX_ASSERT(zone < state.zones.size());
  if (&Inspect::inodes(view) == &state.live.inodes) {  // what is copied must stand still
    const Snapshot still = snapshot();
    return clone(still, from, dir, name, zone);
  }
  TURNBOX_ASSERT(Inspect::heap(view) ==
                 state.nodes.heap().get());  // pages are shared within a family of trees
  const InodeTable& inodes = Inspect::inodes(view);
  if (inodes.find(from) == nullptr) return err(ENOENT);
  TRY_ASSIGN(const Inode* parent, state.name_place(dir, name, host));
  TRY_ASSIGN(const uint64_t cookie, state.new_cookie(*parent, name));
  Cost cost;
  TRY(walk(inodes, from, cost));
  TRY(state.room_for(cost.inodes, cost.name_bytes + name.size()));
  TRY(state.room_for_xattrs(cost.xattr_bytes));

  Cloner cloner{state, zone, dir, std::string(name), cookie, state.now()};
  TRY(walk(inodes, from, cloner));
  state.settle();
  return attr_of(cloner.top, *state.find(cloner.top));
}

}  // namespace turnbox::fs
