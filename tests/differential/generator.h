// Draws steps. It leans on the names that were there when it last heard of them, so that most calls meet
// something; nothing depends on its being right.
#pragma once

#include <map>
#include <random>

#include "tests/differential/step.h"

namespace turnbox::differential {

class Generator {
 public:
  explicit Generator(uint64_t seed);

  Step next();
  void learn(const std::map<std::string, uint32_t>& paths);  // what is there: mode by path
  void told(const Step& step, Answer answer);                // what became of a step

 private:
  uint64_t pick(uint64_t below) { return below == 0 ? 0 : random_() % below; }
  bool chance(unsigned percent) { return pick(100) < percent; }
  template <typename List>
  const auto& one_of(const List& list) {
    return list[pick(std::size(list))];
  }

  std::string name();
  std::string some_path(uint32_t type = 0);  // of what is there, of this S_IF* if it is not 0
  std::string directory();
  std::string fresh();       // a name, taken or not, in a directory
  std::string any_path();    // mostly one that is there
  std::string target();      // of a symlink
  At at(uint32_t type = 0);  // a path or a slot
  int slot();                // mostly an open one
  uint32_t mode();
  uint64_t offset();
  uint64_t length();
  Who who();
  timespec time();
  std::string xattr();

  void aim_at_xattr(Step& step);
  void names(Step& step, uint64_t kind);
  void files(Step& step, uint64_t kind);
  void attributes(Step& step, uint64_t kind);
  void open(Step& step);

  std::mt19937_64 random_;
  std::map<std::string, uint32_t> paths_;
  std::array<bool, kSlots> open_{};
  struct Set {
    At at;
    std::string name;
  };
  std::vector<Set> set_;  // xattrs that were set of late
  uint32_t umask_ = 022;
  unsigned crowd_ = 60;  // from this many names on, more go than come
};

}  // namespace turnbox::differential
