// What the tree must do, said as plainly as possible: maps and copies, no sharing, nothing clever. A snapshot
// is a copy.
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fs/tree/tree.h"

namespace turnbox::fs::plain {

inline constexpr size_t kPage = 4096;

struct Inode {
  Attr attr;                              // size and blocks are computed
  std::map<std::string, Ino> entries;     // of a directory
  Ino parent = kNoIno;                    // of a directory
  std::map<uint64_t, std::string> pages;  // of a file: those written, by index
  std::set<uint64_t> reserved;            // of a file: those allocated and not written
  std::map<std::string, std::string> xattrs;
  bool linkable = false;  // made without a name
  uint64_t size = 0;      // of a file
  std::string target;     // of a symlink
};

struct State {
  std::map<Ino, Inode> inodes;
  uint64_t name_bytes = 0, xattr_bytes = 0;

  Attr attr(Ino ino) const;
  std::string content(Ino ino, uint64_t offset, size_t size) const;
};

class Model {
 public:
  Model(const Budget& budget, Time& now) : budget_(budget), now_(now) {}
  // What a fork of `other` at `state` is: nothing is held in it, so nothing without a name stays.
  Model(const Model& other, const State& state);

  void make_root(Ino ino, ZoneId zone, uint16_t mode);
  void add_zone(const Zone& zone) { zones_.push_back(zone); }
  void set_zone_state(ZoneId id, ZoneState state) { zones_.at(id).state = state; }

  // Each answers an errno, 0 when it was done. New inodes get the number that the tree gave.
  int create(Ino dir, const std::string& name, const Tree::NewNode& node, const Caller& caller, Ino number);
  int create_unnamed(Ino dir, uint16_t mode, const Caller& caller, Ino number);
  int link(Ino ino, Ino dir, const std::string& name, const Caller& caller);
  int unlink(Ino dir, const std::string& name, const Caller& caller);
  int rmdir(Ino dir, const std::string& name, const Caller& caller);
  // `whiteout`: the number that the tree gave to one.
  int rename(Ino from, const std::string& old_name, Ino to, const std::string& new_name, uint32_t flags,
             const Caller& caller, Ino whiteout);
  int setattr(Ino ino, const SetAttr& set, const Caller& caller);
  int write(Ino ino, uint64_t offset, const std::string& bytes, bool kill, const Caller& caller);
  int allocate(Ino ino, uint64_t offset, uint64_t size, uint32_t mode, const Caller& caller);
  // -errno, or how much was copied.
  int64_t copy_range(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset, uint64_t size, bool kill,
                     const Caller& caller);
  int setxattr(Ino ino, const std::string& name, const std::string& value, Tree::XattrMode mode,
               const Caller& caller);
  int removexattr(Ino ino, const std::string& name, const Caller& caller);
  void hold(Ino ino) { ++holds_[ino]; }
  void unhold(Ino ino);

  const State& state() const { return state_; }
  const std::map<Ino, uint64_t>& holds() const { return holds_; }

 private:
  int may_change(const Inode& inode, const Caller& caller) const;
  int place(Ino dir, const std::string& name, const Caller& caller);
  bool below(Ino dir, Ino top) const;
  void touch(Ino dir);
  void drop(Ino ino);
  void forget(Ino ino);
  void put(Inode& inode, uint64_t offset, const std::string& bytes);
  void clear(Inode& inode, uint64_t offset, uint64_t end);
  void kill_privileges(Inode& inode);

  Budget budget_;
  Time& now_;
  State state_;
  std::vector<Zone> zones_{Zone{}};
  std::map<Ino, uint64_t> holds_;
};

}  // namespace turnbox::fs::plain
