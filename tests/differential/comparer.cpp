#include "tests/differential/comparer.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace turnbox::differential {

namespace {

// What tmpfs and turnbox answer differently, and may. All else is a fault.
//
// clang-format off
// | what                                   | tmpfs                    | turnbox                  | why                 |
// |----------------------------------------|--------------------------|--------------------------|---------------------|
// | st_ino, st_dev, order of a listing     | its own                  | its own                  | names of things; only which names share an inode is compared |
// | st_size of a directory                 | 20 bytes an entry        | the number of entries    | nothing is promised; both made up |
// | st_blocks of what is no regular file   | 0                        | 0                        | not compared: long symlinks are counted by some kernels |
// | st_blksize of a device                 | the device's             | 4096                     | the kernel asks a device that it happens to have |
// | atime after reading                    | noatime, as mounted      | never moves              | reading changes nothing in turnbox; tmpfs is mounted so |
// | FALLOC_FL_ZERO_RANGE                   | EOPNOTSUPP               | done                     | the tmpfs side makes it of a hole and an allocation |
// | SEEK_DATA, SEEK_HOLE of the workspace  | the holes                | all is data              | decision 0211: the server does not know what a guest holds back |
// | device                                 |                          |                          |                     |
// | SEEK_DATA in pages that were allocated | a hole, or data once     | a hole                   | either is right by lseek(2); tmpfs depends on how often it was asked |
// | and never written                      | touched again            |                          |                     |
// | holes, st_blocks after copy_file_range | holes become zeros       | holes stay, pages shared | the kernel copies through a pipe there |
// | files used, by statfs                  | counts names and xattrs  | counts inodes            | turnbox's is held against the tree instead |
// | the same, on a mount                   |                          | and directories removed  | a kernel keeps the directory in which an open file was found, removed or not |
// | POSIX ACLs                             | system.posix_acl_*       | EOPNOTSUPP               | not drawn: turnbox has none |
// | sgid without group execute, after a    | goes (Linux 6.2 and on)  | stays                    | HANDLE_KILLPRIV_V2 keeps it, and no server knows the caller's groups |
// | write or chown by a stranger           |                          |                          |                     |
// | mtime after truncate(2) of an empty    | left                     | moved                    | not drawn: a server cannot tell it from an open with O_TRUNC, which moves it |
// | file to nothing                        |                          |                          |                     |
// | chown(2) with -1 and -1 by a stranger  | EPERM if suid would go   | 0, and it stays          | drawn as root: before a stranger's write the kernel sends the same request |
// | two changes within one tick            | may leave one time       | always moves it          | the kernel's clock for files is coarse; told apart by what that clock said when the time was last seen |
// clang-format on

constexpr time_t kSlack = 5;  // seconds around the run in which a time was «now»
constexpr int kLookSlot = kSlots - 1;
constexpr uint64_t kPiece = 256 * 1024;
constexpr unsigned kMostDepth = 12;
constexpr unsigned kPatience = 2000;  // statfs calls until what was removed must be free

Difference difference(const std::string& kind, const std::string& where, const std::string& right,
                      const std::string& tested) {
  return {kind,
          kind + (where.empty() ? "" : " of " + where) + ": tmpfs has " + right + ", turnbox has " + tested};
}

std::string octal(uint32_t mode) {
  char text[16];
  std::snprintf(text, sizeof text, "0%o", mode);
  return text;
}

std::string text_of(const timespec& time) {
  return std::to_string(time.tv_sec) + "." + std::to_string(time.tv_nsec);
}

bool same(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

std::string name_of(const At& at) {
  return at.slot >= 0 ? "fd" + std::to_string(at.slot) : "\"" + at.path + "\"";
}

std::string parent_of(const std::string& path) {
  const size_t end = path.rfind('/');
  return end == path.npos ? "" : path.substr(0, end);
}

bool changes_names(Verb verb) {
  return verb == Verb::open || (verb >= Verb::mkdir && verb <= Verb::rename && verb != Verb::readlink) ||
         verb == Verb::list;
}
bool changes_content(const Step& step) {
  return step.verb == Verb::write || step.verb == Verb::truncate || step.verb == Verb::allocate ||
         step.verb == Verb::copy_range || (step.verb == Verb::open && (step.flags & O_TRUNC) != 0);
}
bool changes_xattrs(Verb verb) {
  return verb == Verb::setxattr || verb == Verb::removexattr;
}

}  // namespace

void Comparer::root_looks() {
  right_.become({});
  tested_.become({});
}

void Comparer::begin() {
  root_looks();
  pairs_.clear();
  back_.clear();
  paths_.clear();
  began_ = ::time(nullptr);
  Space now;
  for (unsigned i = 0; i < kPatience; ++i) {
    tested_.statfs(now);
    if (tested_space_.blocks == 0) break;  // the first episode of all
    if (now.free_files == tested_space_.free_files && now.free_blocks == tested_space_.free_blocks) return;
  }
  if (tested_space_.blocks != 0) leak_ = now;
  tested_space_ = now;
}

Verdict Comparer::times(const std::string& what, Pair& pair, const Stat& right, const Stat& tested) {
  timespec tick{};  // what a change from here on gets at least
  ::clock_gettime(CLOCK_REALTIME_COARSE, &tick);
  const auto of_the_run = [&](const timespec& time) {
    return time.tv_sec >= began_ - kSlack && time.tv_sec <= tick.tv_sec + kSlack;
  };
  static constexpr const char* kNames[] = {"atime", "mtime", "ctime"};
  const timespec now_right[] = {right.atime, right.mtime, right.ctime};
  const timespec now_tested[] = {tested.atime, tested.mtime, tested.ctime};
  for (size_t i = 0; i < 3; ++i) {
    const timespec &a = now_right[i], &b = now_tested[i];
    Seen& seen = pair.seen[i];
    if (!of_the_run(a) || !of_the_run(b)) {
      if (!same(a, b)) return difference(kNames[i], what, text_of(a), text_of(b));
    } else if (seen.once) {
      const bool moved_a = !same(a, seen.right), moved_b = !same(b, seen.tested);
      if (moved_a != moved_b && (moved_a || !seen.may_stay)) {
        return difference(kNames[i], what, moved_a ? "moved it" : "left it",
                          moved_b ? "moved it" : "left it");
      }
    }
    const bool before_tick = std::tie(a.tv_sec, a.tv_nsec) < std::tie(tick.tv_sec, tick.tv_nsec);
    seen = {.once = true, .may_stay = !before_tick, .right = a, .tested = b};
  }
  return {};
}

Verdict Comparer::inode(const std::string& what, const Stat& right, const Stat& tested) {
  const auto number = [](uint64_t value) { return std::to_string(value); };
  auto [at, fresh] = pairs_.try_emplace(right.ino);
  Pair& pair = at->second;
  if (fresh) {
    pair.tested = tested.ino;
    const auto [back, free] = back_.try_emplace(tested.ino, right.ino);
    if (!free) return difference("inode", what, "a new one", "one that was seen before");
  } else if (pair.tested != tested.ino) {
    return difference("inode", what, "one that was seen before", "another");
  }
  const bool file = S_ISREG(right.mode), device = S_ISCHR(right.mode) || S_ISBLK(right.mode);
  if (right.mode != tested.mode)
    return difference("mode", what, octal(right.mode), octal(tested.mode));
  if (right.nlink != tested.nlink)
    return difference("nlink", what, number(right.nlink), number(tested.nlink));
  if (right.uid != tested.uid) return difference("uid", what, number(right.uid), number(tested.uid));
  if (right.gid != tested.gid) return difference("gid", what, number(right.gid), number(tested.gid));
  if (device && right.rdev != tested.rdev)
    return difference("rdev", what, number(right.rdev), number(tested.rdev));
  if (!S_ISDIR(right.mode) && right.size != tested.size)
    return difference("size", what, number(right.size), number(tested.size));
  if (file && right.size == 0 && right.blocks == 0 && tested.blocks == 0) pair.holes_differ = pair.copied = false;
  if (file && !pair.copied && right.blocks != tested.blocks)
    return difference("blocks", what, number(right.blocks), number(tested.blocks));
  if ((file || S_ISDIR(right.mode)) && right.blksize != tested.blksize)
    return difference("blksize", what, number(right.blksize), number(tested.blksize));
  return times(what, pair, right, tested);
}

Verdict Comparer::listing(const std::string& path, std::vector<Entry>& entries) {
  std::vector<Entry> others;
  const Answer a = right_.list(path, entries), b = tested_.list(path, others);
  const std::string what = "\"" + path + "\"";
  if (a != b) return difference("errno of a listing", what, to_text(a), to_text(b));
  const auto by_name = [](const Entry& x, const Entry& y) { return x.name < y.name; };
  std::sort(entries.begin(), entries.end(), by_name);
  std::sort(others.begin(), others.end(), by_name);
  const auto joined = [](const std::vector<Entry>& list) {
    std::string text;
    for (const Entry& entry : list) text += " " + entry.name + ":" + std::to_string(entry.type);
    return text;
  };
  const auto alike = [](const Entry& x, const Entry& y) { return x.name == y.name && x.type == y.type; };
  if (entries.size() != others.size() || !std::equal(entries.begin(), entries.end(), others.begin(), alike))
    return difference("listing", what, joined(entries), joined(others));
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto pair = pairs_.find(entries[i].ino);
    if (pair != pairs_.end() && pair->second.tested != others[i].ino)
      return difference("d_ino", what + "/" + entries[i].name, "the file's", "another's");
  }
  return {};
}

Verdict Comparer::bytes(int slot, const std::string& what, uint64_t offset, uint64_t size) {
  for (uint64_t end = offset + size; offset < end; offset += kPiece) {
    std::string a, b;
    const auto piece = static_cast<uint32_t>(std::min(kPiece, end - offset));
    const Answer got_a = right_.read(slot, offset, piece, a), got_b = tested_.read(slot, offset, piece, b);
    if (got_a != got_b) return difference("errno of a read", what, to_text(got_a), to_text(got_b));
    if (a == b) continue;
    const auto at = std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
    return difference("content", what + " at " + std::to_string(offset + static_cast<uint64_t>(at)),
                      std::to_string(a[static_cast<size_t>(at)]), std::to_string(b[static_cast<size_t>(at)]));
  }
  return {};
}

// Data and holes on both sides, and the bytes of all that is data on either.
Verdict Comparer::extents(int slot, const std::string& what, uint64_t size, bool holes) {
  holes = holes && tested_.tells_holes();
  for (FileSystem* leading : {&right_, &tested_}) {
    if (!leading->tells_holes()) break;
    for (uint64_t at = 0; at < size;) {
      FileSystem* other = leading == &right_ ? &tested_ : &right_;
      const Answer data = leading->seek(slot, at, SEEK_DATA);
      if (holes) {
        if (const Answer same = other->seek(slot, at, SEEK_DATA); same != data)
          return difference("SEEK_DATA", what + " from " + std::to_string(at), to_text(data), to_text(same));
      }
      if (data < 0) break;
      const Answer hole = leading->seek(slot, static_cast<uint64_t>(data), SEEK_HOLE);
      if (holes) {
        if (const Answer same = other->seek(slot, static_cast<uint64_t>(data), SEEK_HOLE); same != hole)
          return difference("SEEK_HOLE", what + " from " + std::to_string(data), to_text(hole),
                            to_text(same));
      }
      if (hole <= data) break;
      if (auto found = bytes(slot, what, static_cast<uint64_t>(data), static_cast<uint64_t>(hole - data)))
        return found;
      at = static_cast<uint64_t>(hole);
    }
    if (holes) break;  // both were asked
  }
  return bytes(slot, what, size > 100 ? size - 100 : 0, 4096);
}

Verdict Comparer::content(const At& at, uint64_t size, bool holes) {
  if (at.slot >= 0) return {};
  const Answer a = right_.open(kLookSlot, at.path, O_RDONLY | O_NOFOLLOW, 0);
  const Answer b = tested_.open(kLookSlot, at.path, O_RDONLY | O_NOFOLLOW, 0);
  Verdict found;
  if (a != b) {
    found = difference("errno of opening", name_of(at), to_text(a), to_text(b));
  } else if (a == 0) {
    found = extents(kLookSlot, name_of(at), size, holes);
  }
  right_.close(kLookSlot);
  tested_.close(kLookSlot);
  return found;
}

Verdict Comparer::xattrs(const At& at) {
  std::vector<std::string> a, b;
  const Answer got_a = right_.listxattr(at, 65'536, a), got_b = tested_.listxattr(at, 65'536, b);
  if (got_a != got_b) return difference("answer of listxattr", name_of(at), to_text(got_a), to_text(got_b));
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  if (a != b)
    return difference("xattr names", name_of(at), std::to_string(a.size()), std::to_string(b.size()));
  for (const std::string& name : a) {
    std::string value_a, value_b;
    const Answer has_a = right_.getxattr(at, name, 65'536, value_a),
                 has_b = tested_.getxattr(at, name, 65'536, value_b);
    if (has_a != has_b)
      return difference("answer of getxattr", name_of(at) + " " + name, to_text(has_a), to_text(has_b));
    if (value_a != value_b) return difference("xattr value", name_of(at) + " " + name, "one", "another");
  }
  return {};
}

// Where the table lets sgid differ, it is made the same again, so that nothing can follow from it.
std::pair<Answer, Answer> Comparer::stats(const At& at, Stat& right, Stat& tested) {
  for (;;) {
    const Answer got_right = right_.stat(at, right), got_tested = tested_.stat(at, tested);
    const bool loose = got_right == 0 && got_tested == 0 && !S_ISDIR(right.mode) &&
                       (right.mode & S_IXGRP) == 0 && (tested.mode ^ right.mode) == S_ISGID &&
                       (tested.mode & S_ISGID) != 0;
    if (!loose) return {got_right, got_tested};
    right_.chmod(at, right.mode & 07777);
    if (tested_.chmod(at, right.mode & 07777) != 0) return {got_right, got_tested};
  }
}

Verdict Comparer::look(const At& at, const Step& step) {
  Stat a, b;
  const auto [got_a, got_b] = stats(at, a, b);
  if (got_a != got_b) return difference("errno of stat", name_of(at), to_text(got_a), to_text(got_b));
  if (got_a < 0) return {};
  if (auto found = inode(name_of(at), a, b)) return found;
  const Pair& pair = pairs_.at(a.ino);
  const bool file = S_ISREG(a.mode);
  if (file && at.slot < 0 && (changes_content(step) || step.verb == Verb::rename)) {
    if (auto found = content(at, a.size, !pair.holes_differ)) return found;
  }
  if (file && at.slot >= 0 && changes_content(step) && step.verb != Verb::open) {
    std::string x;  // a slot that cannot be read is left to everything()
    if (right_.read(at.slot, 0, 1, x) >= 0) {
      if (auto found = extents(at.slot, name_of(at), a.size, !pair.holes_differ)) return found;
    }
  }
  if (changes_xattrs(step.verb)) return xattrs(at);
  return {};
}

Verdict Comparer::after(const Step& step, const Outcome& right, const Outcome& tested) {
  const std::string verb = differential::name_of(step.verb);
  if (leak_) {
    const Space now = *std::exchange(leak_, std::nullopt);
    return Difference{"leak", "after all was removed: " + std::to_string(now.free_files) + " files and " +
                                  std::to_string(now.free_blocks) + " blocks are free, fewer than before"};
  }
  const bool told = step.verb != Verb::seek || (tested_.tells_holes() && !holes_differ(step.at));
  if (told && right.answer != tested.answer)
    return difference("answer of " + verb, "", to_text(right.answer), to_text(tested.answer));
  if (right.bytes != tested.bytes) return difference("bytes of " + verb, "", "some", "others");
  if (right.names != tested.names) return difference("names of " + verb, "", "some", "others");
  root_looks();
  if (right.answer >= 0) {
    if (step.verb == Verb::allocate && (step.flags & FALLOC_FL_PUNCH_HOLE) == 0) mark(step.at, false);
    if (step.verb == Verb::copy_range && right.answer > 0)
      mark({.path = "", .follow = false, .slot = step.slot}, true);
  }
  std::vector<At> touched;
  const auto path = [&](const std::string& name) {
    touched.push_back({.path = name});
    if (!name.empty()) touched.push_back({.path = parent_of(name)});
  };
  if (step.at.slot >= 0) {
    touched.push_back(step.at);
  } else {
    path(step.at.path);
    if (step.at.follow || step.verb == Verb::open) touched.push_back({.path = step.at.path, .follow = true});
  }
  if (step.slot >= 0) touched.push_back({.slot = step.slot});
  if (!step.to.empty() && step.verb != Verb::symlink) path(step.to);
  for (const At& at : touched) {
    if (auto found = look(at, step)) return found;
  }
  if (!changes_names(step.verb) || right.answer < 0) return {};
  std::vector<Entry> ignored;
  if (step.at.slot < 0) {
    if (auto found = listing(parent_of(step.at.path), ignored)) return found;
  }
  ignored.clear();
  return step.to.empty() || step.verb == Verb::symlink ? Verdict{} : listing(parent_of(step.to), ignored);
}

bool Comparer::holes_differ(const At& at) {
  Stat stat;
  root_looks();
  if (right_.stat(at, stat) < 0) return false;
  const auto pair = pairs_.find(stat.ino);
  return pair != pairs_.end() && pair->second.holes_differ;
}

void Comparer::mark(const At& at, bool copied) {
  Stat stat, other;
  if (right_.stat(at, stat) < 0 || tested_.stat(at, other) < 0) return;
  Pair& pair = pairs_[stat.ino];
  if (pair.tested == 0) pair.tested = other.ino, back_[other.ino] = stat.ino;
  pair.holes_differ = true;
  pair.copied |= copied;
}

Verdict Comparer::directory(const std::string& path, unsigned depth) {
  std::vector<Entry> entries;
  if (auto found = listing(path, entries)) return found;
  for (const Entry& entry : entries) {
    const At at{.path = path.empty() ? entry.name : path + "/" + entry.name};
    Stat a, b;
    const auto [got_a, got_b] = stats(at, a, b);
    if (got_a != got_b) return difference("errno of stat", name_of(at), to_text(got_a), to_text(got_b));
    if (got_a < 0) continue;
    if (auto found = inode(name_of(at), a, b)) return found;
    paths_[at.path] = a.mode;
    if (S_ISDIR(a.mode)) {
      if (depth < kMostDepth) {
        if (auto found = directory(at.path, depth + 1)) return found;
      } else {
        complete_ = false;
      }
    }
    if (!walked_.insert(a.ino).second) continue;
    blocks_ += b.blocks;
    if (S_ISLNK(a.mode)) {
      std::string x, y;
      if (right_.readlink(at.path, x) != tested_.readlink(at.path, y) || x != y)
        return difference("target", name_of(at), x, y);
    }
    if (S_ISREG(a.mode)) {
      if (auto found = content(at, a.size, !pairs_.at(a.ino).holes_differ)) return found;
    }
    if (auto found = xattrs(at)) return found;
  }
  return {};
}

// What statfs says is used is what the tree holds; pages that a copy shares are held once.
Verdict Comparer::space() {
  bool shared = false;
  for (const auto& [ino, pair] : pairs_) shared = shared || pair.copied;
  Space now;
  for (unsigned i = 0; i < kPatience; ++i) {
    tested_.statfs(now);
    const uint64_t files = tested_space_.free_files - now.free_files + 1;  // and the root, which was there
    const uint64_t blocks = (tested_space_.free_blocks - now.free_blocks) * (now.block_size / 512);
    const bool kept = open_ && tested_.has_kernel() && files > walked_.size();
    if ((files == walked_.size() || kept) && (blocks == blocks_ || (shared && blocks <= blocks_))) return {};
  }
  return Difference{
      "statfs", "statfs: " + std::to_string(tested_space_.free_files - now.free_files + 1) + " files and " +
                    std::to_string((tested_space_.free_blocks - now.free_blocks) * (now.block_size / 512)) +
                    " blocks of 512 are used, but the tree holds " + std::to_string(walked_.size()) +
                    " and " + std::to_string(blocks_)};
}

Verdict Comparer::everything() {
  root_looks();
  walked_.clear();
  paths_.clear();
  blocks_ = 0;
  complete_ = true;
  open_ = false;
  Stat a, b;
  right_.stat({}, a);
  tested_.stat({}, b);
  if (auto found = inode("the root", a, b)) return found;
  walked_.insert(a.ino);
  if (auto found = directory("", 0)) return found;
  for (int slot = 0; slot < kLookSlot; ++slot) {
    const At at{.slot = slot};
    const auto [got_a, got_b] = stats(at, a, b);
    if (got_a != got_b) return difference("errno of fstat", name_of(at), to_text(got_a), to_text(got_b));
    if (got_a < 0) continue;
    if (auto found = inode(name_of(at), a, b)) return found;
    if (walked_.insert(a.ino).second) blocks_ += b.blocks;
    open_ = true;
    std::string x;
    if (S_ISREG(a.mode) && right_.read(slot, 0, 1, x) >= 0) {
      if (auto found = extents(slot, name_of(at), a.size, !pairs_.at(a.ino).holes_differ)) return found;
    }
    if (auto found = xattrs(at)) return found;
  }
  if (right_.statfs(right_space_), tested_.statfs(tested_now_); right_space_.name_max != tested_now_.name_max)
    return difference("name length of statfs", "", std::to_string(right_space_.name_max),
                      std::to_string(tested_now_.name_max));
  return complete_ ? space() : Verdict{};
}

}  // namespace turnbox::differential
