// One call of the differential test, as a value: drawn by the generator, run on either side, shrunk and
// printed.
#pragma once

#include <optional>

#include "tests/differential/file_system.h"

namespace turnbox::differential {

enum class Verb : uint8_t {
  open,
  close,
  read,
  write,
  seek,
  allocate,
  copy_range,
  mkdir,
  rmdir,
  mknod,
  symlink,
  readlink,
  link,
  unlink,
  rename,
  stat,
  chmod,
  chown,
  utimens,
  truncate,
  setxattr,
  getxattr,
  listxattr,
  removexattr,
  list,
  statfs,
};

struct Step {
  Verb verb = Verb::stat;
  Who who;
  At at;               // what it is about: a path or a slot
  int slot = -1;       // open: where to; copy_range: the destination
  std::string to;      // link, rename: the new name; symlink: the target
  std::string name;    // of an xattr
  uint32_t flags = 0;  // open, rename, setxattr, allocate; whence of seek
  uint32_t mode = 0;   // open, mkdir, mknod, chmod
  uint64_t offset = 0, size = 0, to_offset = 0;
  uint8_t fill = 0;           // write, setxattr: what the bytes are made of
  uint32_t uid = 0, gid = 0;  // chown; mknod: major and minor
  std::array<timespec, 2> times{};
};

struct Outcome {
  Answer answer = 0;
  std::string bytes;               // read, readlink, getxattr
  std::vector<std::string> names;  // listxattr, sorted
  bool operator==(const Outcome&) const = default;
};

Outcome run(const Step& step, FileSystem& fs);
std::string to_text(const Step& step);  // a line of a program
std::string to_text(Answer answer);     // «ENOENT (2)» or the number
const char* name_of(Verb verb);

// The bytes that a write or a setxattr of this step brings.
std::string bytes_of(const Step& step);

}  // namespace turnbox::differential
