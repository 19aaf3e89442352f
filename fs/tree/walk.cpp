#include "fs/tree/walk.h"

namespace turnbox::fs {

std::vector<Dirent> sorted_entries(const Inode& dir) {
  std::vector<Dirent> entries;
  entries.reserve(dir.size);
  Dir::scan(dir.node, 0, [&](const Dirent& entry) {
    entries.push_back(entry);
    return true;
  });
  // char_traits compares bytes as unsigned.
  std::sort(entries.begin(), entries.end(), [](const Dirent& a, const Dirent& b) { return a.name < b.name; });
  return entries;
}

}  // namespace turnbox::fs
