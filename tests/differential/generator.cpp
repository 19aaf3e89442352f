#include "tests/differential/generator.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>

namespace turnbox::differential {

namespace {

constexpr uint32_t kModes[] = {0755, 0755, 0700, 0777, 0750, 02775, 04755, 02755, 06777,
                               0644, 0644, 0600, 0666, 0444, 0000,  02644, 04711};
constexpr uint64_t kPage = 4096;
constexpr size_t kMostDeep = 5;  // slashes in a path that is drawn for something new

}  // namespace

Generator::Generator(uint64_t seed) : random_(seed) {
  crowd_ = static_cast<unsigned>(20 + pick(120));
}

void Generator::learn(const std::map<std::string, uint32_t>& paths) {
  paths_ = paths;
}

void Generator::told(const Step& step, Answer answer) {
  if (step.verb == Verb::open) open_[static_cast<size_t>(step.slot)] = answer >= 0;
  if (step.verb == Verb::close && step.at.slot >= 0) open_[static_cast<size_t>(step.at.slot)] = false;
  if (answer < 0) return;
  if (step.verb == Verb::setxattr) {
    if (set_.size() < 24) set_.emplace_back();
    set_[pick(set_.size())] = {step.at, step.name};
  }
  switch (step.verb) {
    case Verb::open:
      if ((step.flags & O_CREAT) != 0) paths_.try_emplace(step.at.path, S_IFREG);
      break;
    case Verb::mkdir:
      paths_[step.at.path] = S_IFDIR;
      break;
    case Verb::mknod:
      paths_[step.at.path] = step.mode;
      break;
    case Verb::symlink:
      paths_[step.at.path] = S_IFLNK;
      break;
    case Verb::link:
      paths_[step.to] = S_IFREG;
      break;
    case Verb::unlink:
    case Verb::rmdir:
      paths_.erase(step.at.path);
      break;
    case Verb::rename: {
      const auto moved = paths_.find(step.at.path);
      if (moved == paths_.end()) break;
      const uint32_t mode = moved->second;
      if ((step.flags & (RENAME_EXCHANGE | RENAME_WHITEOUT)) == 0) paths_.erase(moved);
      paths_[step.to] = mode;
      break;
    }
    default:
      break;
  }
}

std::string Generator::name() {
  if (chance(1)) return std::string(254 + pick(3), 'x');  // 256 is too long
  if (chance(3)) {
    static const std::string kOdd[] = {"\xff\xfe", " ", "caf\xc3\xa9", "#1", "-rf", "a\nb", "...", "x\x01y"};
    return one_of(kOdd);
  }
  return "n" + std::to_string(pick(12));
}

std::string Generator::some_path(uint32_t type) {
  if (paths_.empty()) return "n0";
  for (unsigned i = 0; i < 10; ++i) {
    const auto at = std::next(paths_.begin(), static_cast<long>(pick(paths_.size())));
    if (type == 0 || (at->second & S_IFMT) == type) return at->first;
  }
  return std::next(paths_.begin(), static_cast<long>(pick(paths_.size())))->first;
}

std::string Generator::directory() {
  if (chance(30)) return "";
  if (chance(8)) return some_path(S_IFLNK);
  if (chance(2)) return some_path() + (chance(50) ? "/.." : "/.");
  return some_path(S_IFDIR);
}

std::string Generator::fresh() {
  for (unsigned i = 0; i < 4; ++i) {
    std::string dir = directory();
    const auto deep = static_cast<size_t>(std::count(dir.begin(), dir.end(), '/'));
    if (deep < kMostDeep) return dir.empty() ? name() : dir + "/" + name();
  }
  return name();
}

std::string Generator::any_path() {
  return chance(80) ? some_path() : fresh();
}

std::string Generator::target() {
  if (chance(2)) return std::string(4094 + pick(3), 't');
  if (chance(5)) return std::string(60 + pick(200), 'u');
  if (chance(1)) return "";
  if (chance(10)) return "..";
  if (chance(10)) return "/" + some_path();
  if (chance(40)) return some_path();
  if (chance(30)) return "../" + name();
  return name();
}

int Generator::slot() {
  if (chance(95)) {
    for (unsigned i = 0; i < 12; ++i) {
      const auto at = pick(kSlots - 1);
      if (open_[at]) return static_cast<int>(at);
    }
  }
  return static_cast<int>(pick(kSlots - 1));
}

At Generator::at(uint32_t type) {
  if (chance(30)) return {.slot = slot()};
  return {.path = chance(85) ? some_path(type) : fresh(), .follow = chance(40)};
}

uint32_t Generator::mode() {
  return chance(85) ? one_of(kModes) : static_cast<uint32_t>(pick(010000));
}

uint64_t Generator::offset() {
  if (chance(30)) return pick(2 * kPage);
  if (chance(40)) return pick(40) * kPage;
  if (chance(80)) return pick(300'000);
  static constexpr uint64_t kFar[] = {uint64_t{1} << 31,
                                      uint64_t{1} << 32,
                                      uint64_t{1} << 40,
                                      (uint64_t{1} << 40) + 12345,
                                      uint64_t{1} << 62,
                                      65536 * 64,
                                      1 << 28};
  return one_of(kFar) - (chance(30) ? pick(3) : 0);
}

uint64_t Generator::length() {
  if (chance(5)) return 0;
  if (chance(40)) return 1 + pick(200);
  if (chance(50)) return (1 + pick(20)) * kPage;
  return 1 + pick(70'000);
}

Who Generator::who() {
  if (chance(2)) {
    static constexpr uint32_t kMasks[] = {022, 0, 077, 0777};
    umask_ = one_of(kMasks);
  }
  static constexpr Who kOthers[] = {{1000, 1000}, {1001, 1000}, {1002, 1002}};
  Who drawn = chance(70) ? Who{} : one_of(kOthers);
  drawn.umask = umask_;
  return drawn;
}

timespec Generator::time() {
  if (chance(20)) return {.tv_sec = 0, .tv_nsec = UTIME_NOW};
  if (chance(20)) return {.tv_sec = 0, .tv_nsec = UTIME_OMIT};
  static constexpr int64_t kSeconds[] = {0,          1,          -1,          1'000'000'000, 2147483647,
                                         2147483648, 4294967296, -2147483649, 253402300799};
  return {.tv_sec = one_of(kSeconds),
          .tv_nsec = chance(50) ? static_cast<long>(pick(1'000'000'000)) : 999'999'999};
}

std::string Generator::xattr() {
  if (chance(2)) return "user." + std::string(248 + pick(4), 'k');  // 256 is too long
  static const std::string kNames[] = {
      "user.a",     "user.b",    "user.c",     "trusted.a", "trusted.overlay.opaque",
      "security.x", "user.\xff", "nonsense.a", "user.",     "trusted."};
  return chance(85) ? kNames[pick(6)] : one_of(kNames);
}

void Generator::open(Step& step) {
  step.verb = Verb::open;
  step.slot = static_cast<int>(pick(kSlots - 1));
  static constexpr uint32_t kAccess[] = {O_RDWR, O_RDWR, O_RDONLY, O_WRONLY};
  step.flags = one_of(kAccess);
  step.mode = mode();
  if (chance(8)) {
    step.at.path = directory();
    step.flags = (step.flags == O_RDONLY ? O_RDWR : step.flags) | O_TMPFILE | (chance(20) ? O_EXCL : 0);
    return;
  }
  if (chance(10)) {
    step.at.path = some_path(S_IFDIR);
    step.flags = O_RDONLY | (chance(50) ? O_DIRECTORY : 0);
    return;
  }
  const bool create = chance(55);
  step.at.path = create ? (chance(70) ? fresh() : some_path()) : some_path(S_IFREG);
  if (create) step.flags |= O_CREAT | (chance(25) ? O_EXCL : 0);
  if (chance(15)) step.flags |= O_TRUNC;
  if (chance(15)) step.flags |= O_APPEND;
  if (chance(15)) step.flags |= O_NOFOLLOW;
}

void Generator::names(Step& step, uint64_t kind) {
  step.mode = mode();
  if (kind < 18) {
    step.verb = Verb::mkdir;
    step.at.path = fresh();
  } else if (kind < 26) {
    step.verb = Verb::mknod;
    step.at.path = fresh();
    static constexpr uint32_t kTypes[] = {S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK, S_IFREG, S_IFCHR};
    step.mode |= one_of(kTypes);
    const bool device = S_ISCHR(step.mode) || S_ISBLK(step.mode);
    step.uid = device && chance(70) ? static_cast<uint32_t>(pick(4096)) : 0;
    step.gid = device && chance(70) ? static_cast<uint32_t>(pick(1U << 20)) : 0;
  } else if (kind < 36) {
    step.verb = Verb::symlink;
    step.to = target();
    step.at.path = fresh();
  } else if (kind < 50) {
    step.verb = Verb::link;
    step.at = at(S_IFREG);
    step.to = fresh();
  } else if (kind < 55) {
    step.verb = Verb::readlink;
    step.at.path = some_path(S_IFLNK);
  } else if (kind < 60) {
    step.verb = Verb::list;
    step.at.path = chance(80) ? some_path(S_IFDIR) : any_path();
  } else if (kind < 75) {
    step.verb = Verb::unlink;
    step.at.path = any_path();
  } else if (kind < 84) {
    step.verb = Verb::rmdir;
    step.at.path = chance(80) ? some_path(S_IFDIR) : any_path();
  } else {
    step.verb = Verb::rename;
    step.at.path = any_path();
    step.to = chance(50) ? fresh() : any_path();
    static constexpr uint32_t kFlags[] = {0,
                                          0,
                                          0,
                                          0,
                                          RENAME_NOREPLACE,
                                          RENAME_EXCHANGE,
                                          RENAME_EXCHANGE,
                                          RENAME_WHITEOUT,
                                          RENAME_WHITEOUT | RENAME_NOREPLACE,
                                          RENAME_EXCHANGE | RENAME_NOREPLACE,
                                          RENAME_EXCHANGE | RENAME_WHITEOUT,
                                          8};
    step.flags = one_of(kFlags);
  }
}

void Generator::files(Step& step, uint64_t kind) {
  step.at.slot = slot();
  step.offset = offset();
  step.size = length();
  step.fill = static_cast<uint8_t>(random_());
  if (kind < 25) {
    open(step);
    step.at.slot = -1;
  } else if (kind < 31) {
    step.verb = Verb::close;
  } else if (kind < 41) {
    step.verb = Verb::read;
  } else if (kind < 63) {
    step.verb = Verb::write;
    if (chance(1))
      step.offset = INT64_MAX - pick(step.size);  // past the end of all files; tmpfs cannot seek there
  } else if (kind < 70) {
    step.verb = Verb::seek;
    step.flags = chance(50) ? SEEK_DATA : SEEK_HOLE;
  } else if (kind < 80) {
    step.verb = Verb::truncate;
    step.at = at(S_IFREG);
    step.size = chance(50) ? offset() : pick(100'000);
    if (step.at.slot < 0)
      step.size = std::max<uint64_t>(step.size, 1);  // the table of comparer.cpp has the reason
  } else if (kind < 91) {
    step.verb = Verb::allocate;
    static constexpr uint32_t kModesOf[] = {0,
                                            FALLOC_FL_KEEP_SIZE,
                                            FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                            FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                            FALLOC_FL_ZERO_RANGE,
                                            FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
                                            FALLOC_FL_PUNCH_HOLE};
    step.flags = one_of(kModesOf);
  } else {
    step.verb = Verb::copy_range;
    step.slot = slot();
    step.offset = pick(100'000);
    step.to_offset = chance(40) ? step.offset : offset();
    if (chance(30)) step.offset &= ~(kPage - 1), step.to_offset &= ~(kPage - 1);
  }
}

void Generator::attributes(Step& step, uint64_t kind) {
  step.at = at();
  step.fill = static_cast<uint8_t>(random_());
  if (kind < 10) {
    step.verb = Verb::stat;
  } else if (kind < 30) {
    step.verb = Verb::chmod;
    step.mode = mode();
  } else if (kind < 45) {
    step.verb = Verb::chown;
    static constexpr uint32_t kIds[] = {0, 1000, 1001, 1002, UINT32_MAX};
    step.uid = one_of(kIds);
    step.gid = one_of(kIds);
    if (step.uid == UINT32_MAX && step.gid == UINT32_MAX) step.who = {};  // the table of comparer.cpp
  } else if (kind < 62) {
    step.verb = Verb::utimens;
    step.times = {time(), time()};
  } else if (kind < 80) {
    step.verb = Verb::setxattr;
    step.name = xattr();
    if (chance(30)) aim_at_xattr(step);
    step.size = chance(90) ? pick(300) : (chance(80) ? pick(20'000) : 65'535 + pick(3));
    static constexpr uint32_t kFlags[] = {0, 0, 0, XATTR_CREATE, XATTR_REPLACE, XATTR_CREATE | XATTR_REPLACE,
                                          4};
    step.flags = one_of(kFlags);
  } else if (kind < 88) {
    step.verb = Verb::getxattr;
    aim_at_xattr(step);
    step.size = chance(60) ? 65'536 : pick(300);
  } else if (kind < 93) {
    step.verb = Verb::listxattr;
    step.size = chance(60) ? 65'536 : pick(60);
  } else {
    step.verb = Verb::removexattr;
    aim_at_xattr(step);
  }
}

// Mostly one that was set: else nearly all would be missing.
void Generator::aim_at_xattr(Step& step) {
  step.name = xattr();
  if (set_.empty() || chance(30)) return;
  const Set& one = one_of(set_);
  step.at = one.at;
  step.name = one.name;
}

Step Generator::next() {
  Step step;
  step.who = who();
  const uint64_t subject = pick(100), kind = pick(100);
  if (paths_.size() > crowd_ && chance(20)) {
    step.verb = chance(70) ? Verb::unlink : Verb::rmdir;
    step.at.path = some_path(step.verb == Verb::rmdir ? S_IFDIR : 0);
    step.who = {};
  } else if (subject < 38) {
    names(step, kind);
  } else if (subject < 78) {
    files(step, kind);
  } else {
    attributes(step, kind);
  }
  return step;
}

}  // namespace turnbox::differential
