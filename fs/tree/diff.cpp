// Where two views of one tree differ.
//
// First every inode that differs is found, which skips what the two tables share, and the directories above
// it are marked in its view. Then marked directories alone are gone into: where one has the same entries in
// both views, for those of its entries that differ or are marked, else entry by entry.
#include "fs/tree/diff.h"

#include <bitset>
#include <cstring>
#include <unordered_set>

#include "fs/tree/file.h"
#include "fs/tree/state.h"
#include "fs/tree/walk.h"

namespace turnbox::fs {
namespace {

bool same_page(const Page* a, const Page* b) {
  if (a == b) return true;
  const auto* zero = reinterpret_cast<const Page*>(zeros().data());
  return std::memcmp(a != nullptr ? a : zero, b != nullptr ? b : zero, kPageSize) == 0;
}

// Whether every chunk that `a` has is the same in `b`.
bool covers(const Inode& a, const Inode& b) {
  bool same = true;
  File::scan(a, 0, [&](uint64_t index, const ChunkView& mine) {
    const ChunkView other = File::chunk_at(b, index);
    if (mine.chunk != nullptr && mine.chunk == other.chunk) return true;
    for (unsigned slot = 0; same && slot < kChunkPages; ++slot)
      same = same_page(mine.page(slot), other.page(slot));
    return same;
  });
  return same;
}

bool same_bytes(const Inode& a, const Inode& b) {
  if (a.node == b.node && a.height == b.height) return true;
  return covers(a, b) && covers(b, a);
}

bool same_target(const Inode& a, const Inode& b) {
  return a.node == b.node || std::memcmp(static_cast<const Blob*>(a.node)->bytes(),
                                         static_cast<const Blob*>(b.node)->bytes(), a.size) == 0;
}

bool same(const Inode& a, const Inode& b) {
  if (a.mode != b.mode || a.uid != b.uid || a.gid != b.gid) return false;
  if (!Xattrs::same(a.xattrs, b.xattrs)) return false;
  if (a.is_dir()) return true;
  if (a.size != b.size || a.rdev() != b.rdev()) return false;
  if (a.is_file()) return same_bytes(a, b);
  return a.type != Type::symlink || same_target(a, b);
}

// The directories of one view that stand above something that differs.
struct Marks {
  const InodeTable& inodes;
  std::unordered_set<Ino> dirs{};
  bool unknown = false;  // a changed file whose directory is not known: hard links

  void mark(Ino ino, const Inode& inode) {
    if (inode.nlink == 0) return;  // it has no path
    if (!inode.is_dir()) {
      if (inode.nlink > 1 || inode.parent == kNoIno) unknown = true;
      ino = inode.parent;
    }
    while (dirs.insert(ino).second) {
      const Inode* dir = inodes.find(ino);
      if (dir == nullptr || dir->parent == ino) return;
      ino = dir->parent;
    }
  }
};

// Inodes that differ, and the directories above them. Asked for every entry of a directory: most are told
// apart by a bit.
class Touched {
 public:
  void add(Ino ino) {
    inos_.insert(ino);
    hint_.set(ino % hint_.size());
  }
  bool has(Ino ino) const { return hint_.test(ino % hint_.size()) && inos_.contains(ino); }

 private:
  std::bitset<8192> hint_;
  std::unordered_set<Ino> inos_;
};

// One name of a directory in both views; kNoIno where it is not. `below`: what stands below it, not itself.
struct Task {
  std::string_view name;
  bool below;
  Ino from = kNoIno, to = kNoIno;
};

// The order of whole paths: "a" < "a-b" < "a/b".
bool comes_before(const Task& a, const Task& b) {
  const size_t common = std::min(a.name.size(), b.name.size());
  if (const int order = std::memcmp(a.name.data(), b.name.data(), common); order != 0) return order < 0;
  const auto next = [common](const Task& task) -> int {
    if (task.name.size() > common) return static_cast<unsigned char>(task.name[common]);
    return task.below ? '/' : -1;
  };
  return next(a) < next(b);
}

class Differ {
 public:
  using Visit = std::function<void(Change, Type, std::string_view path)>;
  Differ(const InodeTable& from, const InodeTable& to, const Visit& visit)
      : from_(from), to_(to), marked_from_{from}, marked_to_{to}, visit_(visit) {}

  void run(Ino from_root, Ino to_root);

 private:
  struct Frame {
    size_t path_size;
    bool all;  // the marks say nothing here
    std::vector<Task> tasks;
    size_t next = 0;
  };
  void enter(Ino from, Ino to, bool all);
  void enter_same(const Inode& dir);
  void compare(const Task& task);
  bool unchanged_below(const Task& task) const;
  const Inode* dir(const InodeTable& inodes, Ino ino) const {
    const Inode* inode = inodes.find(ino);
    return inode != nullptr && inode->is_dir() ? inode : nullptr;
  }

  const InodeTable& from_;
  const InodeTable& to_;
  Marks marked_from_, marked_to_;
  Touched touched_;
  const Visit& visit_;
  std::string path_;
  std::vector<Frame> frames_;
};

void Differ::run(Ino from_root, Ino to_root) {
  const bool all = from_root != to_root;
  if (!all) {
    InodeTable::differing(from_, to_, [this](Ino ino, const Inode* a, const Inode* b) {
      if (a != nullptr) marked_from_.mark(ino, *a);
      if (b != nullptr) marked_to_.mark(ino, *b);
      touched_.add(ino);
    });
    for (const Marks* marks : {&marked_from_, &marked_to_}) {
      for (const Ino dir : marks->dirs) touched_.add(dir);
    }
  }
  if (dir(from_, from_root) == nullptr && dir(to_, to_root) == nullptr)
    return compare({{}, false, from_root, to_root});
  enter(from_root, to_root, all || marked_from_.unknown || marked_to_.unknown);
  while (!frames_.empty()) {
    Frame& frame = frames_.back();
    path_.resize(frame.path_size);
    if (frame.next == frame.tasks.size()) {
      frames_.pop_back();
      continue;
    }
    const Task& task = frame.tasks[frame.next++];
    if (path_.size() + 1 + task.name.size() > kMaxPath) continue;
    if (!path_.empty()) path_ += '/';
    path_ += task.name;
    if (!task.below) {
      compare(task);
    } else if (frame.all || !unchanged_below(task)) {
      enter(task.from, task.to, frame.all || task.from != task.to);
    }
  }
}

bool Differ::unchanged_below(const Task& task) const {
  return task.from == task.to && !marked_from_.dirs.contains(task.from) && !marked_to_.dirs.contains(task.to);
}

void Differ::enter(Ino from, Ino to, bool all) {
  const Inode* a = dir(from_, from);
  const Inode* b = dir(to_, to);
  if (!all && a != nullptr && b != nullptr && a->node == b->node) return enter_same(*b);
  const auto old_entries = a != nullptr ? sorted_entries(*a) : std::vector<Dirent>();
  const auto new_entries = b != nullptr ? sorted_entries(*b) : std::vector<Dirent>();
  Frame frame{path_.size(), all, {}};
  auto left = old_entries.begin(), right = new_entries.begin();
  while (left != old_entries.end() || right != new_entries.end()) {
    const bool take_left =
        left != old_entries.end() && (right == new_entries.end() || left->name <= right->name);
    const bool take_right =
        right != new_entries.end() && (left == old_entries.end() || right->name <= left->name);
    Task task{take_left ? left->name : right->name, false, take_left ? left->ino : kNoIno,
              take_right ? right->ino : kNoIno};
    frame.tasks.push_back(task);
    task.below = true;
    if ((take_left && left->type == Type::directory) || (take_right && right->type == Type::directory)) {
      frame.tasks.push_back(task);
    }
    if (take_left) ++left;
    if (take_right) ++right;
  }
  std::sort(frame.tasks.begin(), frame.tasks.end(), comes_before);
  frames_.push_back(std::move(frame));
}

// A directory whose entries are one node in both views: each names the same inode in both.
void Differ::enter_same(const Inode& dir) {
  Frame frame{path_.size(), false, {}};
  Dir::scan(dir.node, 0, [&](const Dirent& entry) {
    if (!touched_.has(entry.ino)) return true;
    frame.tasks.push_back({entry.name, false, entry.ino, entry.ino});
    if (entry.type == Type::directory) frame.tasks.push_back({entry.name, true, entry.ino, entry.ino});
    return true;
  });
  std::sort(frame.tasks.begin(), frame.tasks.end(), comes_before);
  frames_.push_back(std::move(frame));
}

void Differ::compare(const Task& task) {
  const Inode* a = from_.find(task.from);
  const Inode* b = to_.find(task.to);
  if (a != nullptr && b != nullptr && a->type == b->type) {
    if (!same(*a, *b)) visit_(Change::changed, b->type, path_);
    return;
  }
  if (a != nullptr) visit_(Change::removed, a->type, path_);
  if (b != nullptr) visit_(Change::added, b->type, path_);
}

}  // namespace

void diff(const View& from, Ino from_root, const View& to, Ino to_root, const Differ::Visit& visit) {
  Differ(Inspect::inodes(from), Inspect::inodes(to), visit).run(from_root, to_root);
}

}  // namespace turnbox::fs
