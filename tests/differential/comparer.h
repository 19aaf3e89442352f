// Two file systems after the same calls: what a program could tell them apart by.
//
// Times are compared by relation. A time far from the run was set by a call and is equal on both sides to the
// nanosecond; a time of the run must have moved on one side since it was last seen exactly if it moved on the
// other. What tmpfs and turnbox may answer differently is the table in comparer.cpp, and nothing else.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "tests/differential/step.h"

namespace turnbox::differential {

struct Difference {
  std::string kind;  // «errno of rename», «ctime»: shrinking keeps it
  std::string text;
};
using Verdict = std::optional<Difference>;

class Comparer {
 public:
  Comparer(FileSystem& right, FileSystem& tested) : right_(right), tested_(tested) {}

  void begin();  // of an episode; both sides stand in an empty directory
  // What the step answered, then all that it touched.
  Verdict after(const Step& step, const Outcome& right, const Outcome& tested);
  Verdict everything();  // the whole tree and every open file
  const std::map<std::string, uint32_t>& paths() const {
    return paths_;
  }  // of the last everything(): mode by path

 private:
  struct Seen {
    bool once = false;
    bool may_stay = false;  // the right side's clock may give the next change the same time
    timespec right{}, tested{};
  };
  struct Pair {
    uint64_t tested = 0;
    std::array<Seen, 3> seen{};  // atime, mtime, ctime
    bool holes_differ = false;   // allocated or copied to, see the table
    bool copied = false;
  };

  Verdict inode(const std::string& what, const Stat& right, const Stat& tested);
  Verdict times(const std::string& what, Pair& pair, const Stat& right, const Stat& tested);
  Verdict look(const At& at, const Step& step);
  Verdict listing(const std::string& path, std::vector<Entry>& entries);
  Verdict content(const At& at, uint64_t size, bool holes);
  Verdict extents(int slot, const std::string& what, uint64_t size, bool holes);
  Verdict bytes(int slot, const std::string& what, uint64_t offset, uint64_t size);
  Verdict xattrs(const At& at);
  Verdict directory(const std::string& path, unsigned depth);
  Verdict space();
  void root_looks();
  std::pair<Answer, Answer> stats(const At& at, Stat& right, Stat& tested);
  void mark(const At& at, bool copied);
  bool holes_differ(const At& at);

  FileSystem& right_;
  FileSystem& tested_;
  std::unordered_map<uint64_t, Pair> pairs_;     // by the right side's inode number
  std::unordered_map<uint64_t, uint64_t> back_;  // from the tested side's
  std::map<std::string, uint32_t> paths_;
  std::set<uint64_t> walked_;  // inodes of this everything()
  uint64_t blocks_ = 0;        // of them, tested side
  bool open_ = false;          // a slot is
  bool complete_ = true;       // everything() saw all: nothing stood too deep
  Space right_space_, tested_now_;
  Space tested_space_;  // when nothing was there but an empty directory
  std::optional<Space> leak_;
  time_t began_ = 0;
};

}  // namespace turnbox::differential
