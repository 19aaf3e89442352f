// Removes directory trees that nobody names any more, a few entries at a time, so that the loop goes on.
//
// Belongs to the thread that owns the tree.
#pragma once

#include <string>
#include <vector>

#include "fs/tree/tree.h"

namespace turnbox::turn {

class Sweeper {
 public:
  explicit Sweeper(fs::Tree& tree);

  // Moves `dir`/`name` out of every device's sight; step() frees it. A name that is not there is no error.
  fs::Expected<void> discard(fs::Ino dir, std::string_view name);
  // Works for at most `budget_us` microseconds; true while there is more.
  bool step(unsigned budget_us);

 private:
  bool remove_some();  // one bounded piece of work; false: nothing left

  fs::Tree& tree_;
  fs::Ino trash_;  // a root of no device
  uint64_t next_ = 0;
  struct Open {
    fs::Ino dir;
    fs::Ino parent;
    std::string name;  // in the parent
  };
  std::vector<Open> path_;  // from the trash down to the directory being emptied
};

}  // namespace turnbox::turn
