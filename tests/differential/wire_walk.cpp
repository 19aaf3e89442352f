// From a path to a node, and what a kernel checks on the way.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

#include "tests/differential/wire_directory.h"

namespace turnbox::differential {

using support::FuseReply;
using support::pack;

namespace {

constexpr unsigned kMostLinks = 40;
constexpr size_t kMostHeld = 48;  // nodes beyond this are given back at once

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    if (end > at) parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

}  // namespace

bool WireDirectory::Walk::is_above(uint64_t id) const {
  return std::any_of(above.begin(), above.end(), [id](const Node& one) { return one.id == id; });
}

FuseReply WireDirectory::ask(uint32_t opcode, uint64_t node, const sys::Bytes& arguments, size_t room) {
  peer_.uid = who_.uid;
  peer_.gid = who_.gid;
  const FuseReply reply = peer_.call(opcode, node, arguments, room);
  if (reply.used < sizeof(fuse_out_header)) throw std::runtime_error("no reply to a request");
  if (reply.unique != peer_.last_unique()) throw std::runtime_error("a reply to another request");
  if (reply.length != reply.used) throw std::runtime_error("a reply's length is not what was used");
  return reply;
}

WireDirectory::Node WireDirectory::take(const fuse_entry_out& entry) {
  ++counts_[entry.nodeid];
  return {entry.nodeid, entry.attr};
}

void WireDirectory::give_back(bool all) {
  if (!all && counts_.size() <= kMostHeld) return;
  std::set<uint64_t> pinned{base_.id, root_.id};
  for (const Open& open : slots_) {
    if (open.used) pinned.insert(open.id);
  }
  std::vector<fuse_forget_one> gone;
  std::erase_if(counts_, [&](const auto& held) {
    if (pinned.contains(held.first)) return false;
    gone.push_back({held.first, held.second});
    return true;
  });
  if (calls_ % 16 == 0) {
    fuse_batch_forget_in head{};
    head.count = static_cast<uint32_t>(gone.size());
    sys::Bytes message = pack(head);
    for (const auto& one : gone) sys::append(message, pack(one));
    peer_.send(peer_.message(FUSE_BATCH_FORGET, 0, message), 0, support::FusePeer::kHiprio);
  } else {
    for (const auto& one : gone) peer_.forget(one.nodeid, one.nlookup);
  }
}

Answer WireDirectory::lookup(const Node& dir, const std::string& name, Node& found, bool& there) {
  const FuseReply reply = ask(FUSE_LOOKUP, dir.id, pack(name));
  there = false;
  if (reply.error == ENOENT) return 0;
  if (reply.error != 0) return -reply.error;
  const auto entry = reply.as<fuse_entry_out>();
  if (entry.nodeid == 0) return 0;
  found = take(entry);
  there = true;
  return 0;
}

Answer WireDirectory::getattr(uint64_t id, fuse_attr& attr, const Open* open) {
  fuse_getattr_in in{};
  if (open != nullptr && options_.handles) in.getattr_flags = FUSE_GETATTR_FH, in.fh = open->handle;
  const FuseReply reply = ask(FUSE_GETATTR, id, pack(in));
  if (reply.error == 0) attr = reply.as<fuse_attr_out>().attr;
  return -reply.error;
}

Answer WireDirectory::walk(const std::string& path, bool follow, Walk& walk) {
  std::vector<std::string> todo = split(path);
  std::reverse(todo.begin(), todo.end());
  unsigned links = 0;
  if (walk.above.empty()) {
    if (const Answer got = getattr(root_.id, root_.attr); got < 0) return got;
    walk.above.push_back(root_);
  }
  walk.last.clear();
  while (!todo.empty()) {
    const std::string name = todo.back();
    todo.pop_back();
    if (!may(walk.dir().attr, 1)) return -EACCES;
    if (name == ".") continue;
    if (name == "..") {
      if (walk.above.size() > 1) walk.above.pop_back();
      if (const Answer got = getattr(walk.dir().id, walk.above.back().attr); got < 0) return got;
      continue;
    }
    const bool last = walk.at_last = todo.empty();
    bool there = false;
    if (const Answer got = lookup(walk.dir(), name, walk.node, there); got < 0) return got;
    if (there && S_ISLNK(walk.node.attr.mode) && (!last || follow)) {
      if (++links > kMostLinks) return -ELOOP;
      if (const Answer got = last ? may_follow(walk.dir(), walk.node) : 0; got < 0) return got;
      const FuseReply target = ask(FUSE_READLINK, walk.node.id, {});
      if (target.error != 0) return -target.error;
      if (target.text().front() == '/') walk.above.resize(1);
      std::vector<std::string> more = split(target.text());
      todo.insert(todo.end(), more.rbegin(), more.rend());
      continue;
    }
    if (last) {
      walk.last = name;
      walk.found = there;
      return 0;
    }
    if (!there) return -ENOENT;
    if (!S_ISDIR(walk.node.attr.mode)) return -ENOTDIR;
    walk.above.push_back(walk.node);
  }
  walk.node = walk.dir();
  walk.found = true;
  return 0;
}

Answer WireDirectory::find(const At& target, Node& node) {
  if (target.slot >= 0) {
    const Open& open = at(target.slot);
    if (!open.used) return -EBADF;
    node.id = open.id;
    return getattr(open.id, node.attr, &open);
  }
  Walk found;
  if (const Answer got = walk(target.path, target.follow, found); got < 0) return got;
  if (!found.found) return -ENOENT;
  node = found.node;
  return 0;
}

Answer WireDirectory::place(const std::string& path, Walk& to) {
  if (const Answer got = walk(path, false, to); got < 0) return got;
  if (to.found) return -EEXIST;
  return may(to.dir().attr, 3) ? 0 : -EACCES;
}

Answer WireDirectory::victim(const std::string& path, Walk& from) {
  if (const Answer got = walk(path, false, from); got < 0) return got;
  if (!from.found) return -ENOENT;
  if (from.last.empty()) return -EBUSY;
  return may_delete(from.dir(), from.node);
}

// 4: read, 2: write, 1: search. What root may not, no test asks for.
bool WireDirectory::may(const fuse_attr& attr, uint32_t mask) const {
  if (who_.uid == 0) return true;
  uint32_t bits = attr.mode;
  if (attr.uid == who_.uid) {
    bits >>= 6;
  } else if (attr.gid == who_.gid) {
    bits >>= 3;
  }
  return (bits & mask) == mask;
}

Answer WireDirectory::may_delete(const Node& dir, const Node& node) const {
  if (!may(dir.attr, 3)) return -EACCES;
  if ((dir.attr.mode & S_ISVTX) != 0 && !owns(node.attr) && !owns(dir.attr)) return -EPERM;
  return 0;
}

// The rules of fs.protected_* for directories such as /tmp. Symlinks are held to the second at any level.
Answer WireDirectory::may_follow(const Node& dir, const Node& link) const {
  const bool open_to_all = (dir.attr.mode & (S_ISVTX | S_IWOTH)) == (S_ISVTX | S_IWOTH);
  if (protected_.symlinks == 0 || !open_to_all) return 0;
  return link.attr.uid == who_.uid || link.attr.uid == dir.attr.uid ? 0 : -EACCES;
}

Answer WireDirectory::may_create_in_sticky(const Node& dir, const Node& node) const {
  const bool file = S_ISREG(node.attr.mode);
  if ((dir.attr.mode & S_ISVTX) == 0 || (file && protected_.regular == 0)) return 0;
  if (node.attr.uid == dir.attr.uid || node.attr.uid == who_.uid) return 0;
  const bool group = (dir.attr.mode & S_IWGRP) != 0 && file && protected_.regular >= 2;
  return (dir.attr.mode & S_IWOTH) != 0 || group ? -EACCES : 0;
}

// What is left of the mode of a new file once the kernel has looked at it.
uint32_t WireDirectory::mode_for(const Node& dir, uint32_t mode) const {
  const bool group_runs = (mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP);
  if (group_runs && (dir.attr.mode & S_ISGID) != 0 && who_.uid != 0 && who_.gid != dir.attr.gid)
    mode &= ~uint32_t{S_ISGID};
  return mode & ~who_.umask;
}

}  // namespace turnbox::differential
