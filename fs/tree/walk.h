// A depth-first walk below one inode of a view that does not change meanwhile: names sorted by their bytes,
// no recursion, since a guest may nest directories as deep as it likes.
#pragma once

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "fs/tree/dir.h"
#include "fs/tree/inode_table.h"

namespace turnbox::fs {

inline constexpr size_t kMaxPath = 65'536;  // of a path in a meta row and in an import: ENAMETOOLONG

// One entry on the way. The views are valid inside the call.
struct Step {
  std::string_view path;  // relative to the root, which has an empty one
  std::string_view name;  // its last part
  Ino ino;
  const Inode& inode;
};

// Entries of a directory sorted by name. The names stand in the view's nodes.
std::vector<Dirent> sorted_entries(const Inode& dir);

// Visitor: `bool enter(const Step&)`, whether to go into a directory (of others it is ignored), and
// `void leave(const Step&)` for each directory that was gone into. The error is the walk's or nothing.
template <typename Visitor>
Expected<void> walk(const InodeTable& inodes, Ino root, Visitor& visitor) {
  struct Frame {
    Ino ino;
    const Inode* inode;
    size_t path_size, name_size;
    std::vector<Dirent> entries;
    size_t next = 0;
  };
  std::vector<Frame> frames;
  std::string path;
  const auto enter = [&](Ino ino, std::string_view name) {
    const Inode* inode = inodes.find(ino);
    if (!visitor.enter(Step{path, name, ino, *inode}) || !inode->is_dir()) return;
    frames.push_back({ino, inode, path.size(), name.size(), sorted_entries(*inode)});
  };
  enter(root, {});
  while (!frames.empty()) {
    Frame& frame = frames.back();
    path.resize(frame.path_size);
    if (frame.next == frame.entries.size()) {
      const std::string_view whole = path;
      visitor.leave(Step{whole, whole.substr(whole.size() - frame.name_size), frame.ino, *frame.inode});
      frames.pop_back();
      continue;
    }
    const Dirent& entry = frame.entries[frame.next++];
    if (path.size() + 1 + entry.name.size() > kMaxPath) return tl::unexpected<Errno>(Errno{ENAMETOOLONG});
    if (!path.empty()) path += '/';
    path += entry.name;
    enter(entry.ino, entry.name);
  }
  return {};
}

}  // namespace turnbox::fs
