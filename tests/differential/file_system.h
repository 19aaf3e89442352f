// A file system as a program sees it through system calls, rooted at a directory of its own. What the
// differential test drives twice, side by side: a tmpfs, and turnbox by one of its doors.
//
// Open files live in numbered slots, so that a step of the test means the same on both sides and can be left
// out without the rest losing its meaning: a call on an empty slot is EBADF.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

namespace turnbox::differential {

inline constexpr int kSlots = 12;

using Answer = int64_t;  // what the call returned, or −errno

struct Who {
  uint32_t uid = 0, gid = 0;  // one group each; uid 0 has every capability, others none
  uint32_t umask = 022;
};

// What a call is about: a path, or an open file.
struct At {
  std::string path;
  bool follow = false;  // the last symlink
  int slot = -1;
};

struct Stat {
  uint64_t ino = 0;
  uint32_t mode = 0, nlink = 0, uid = 0, gid = 0;
  uint64_t rdev = 0, size = 0, blocks = 0, blksize = 0;
  timespec atime{}, mtime{}, ctime{};
};

struct Entry {
  std::string name;
  uint32_t type = 0;  // DT_*
  uint64_t ino = 0;
};

struct Space {
  uint64_t blocks = 0, free_blocks = 0, files = 0, free_files = 0, name_max = 0, block_size = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual std::string name() const = 0;
  virtual bool has_kernel() const { return false; }  // with caches of its own
  virtual bool tells_holes() const { return true; }  // else seek() says that all is data
  // Closes every slot; a new empty directory (mode 0755, of root) is «» from now on.
  virtual void enter() = 0;
  virtual void become(const Who& who) = 0;

  virtual Answer open(int slot, const std::string& path, uint32_t flags, uint32_t mode) = 0;
  virtual Answer close(int slot) = 0;
  virtual Answer read(int slot, uint64_t offset, uint32_t size, std::string& bytes) = 0;
  virtual Answer write(int slot, uint64_t offset, const std::string& bytes) = 0;
  virtual Answer seek(int slot, uint64_t offset, int whence) = 0;
  virtual Answer allocate(int slot, uint32_t mode, uint64_t offset, uint64_t size) = 0;
  virtual Answer copy_range(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size) = 0;

  virtual Answer mkdir(const std::string& path, uint32_t mode) = 0;
  virtual Answer rmdir(const std::string& path) = 0;
  virtual Answer mknod(const std::string& path, uint32_t mode, uint32_t major, uint32_t minor) = 0;
  virtual Answer symlink(const std::string& target, const std::string& path) = 0;
  virtual Answer readlink(const std::string& path, std::string& target) = 0;
  virtual Answer link(const At& from, const std::string& path) = 0;  // a slot: by way of /proc/self/fd
  virtual Answer unlink(const std::string& path) = 0;
  virtual Answer rename(const std::string& from, const std::string& to, uint32_t flags) = 0;

  virtual Answer stat(const At& at, Stat& stat) = 0;
  virtual Answer chmod(const At& at, uint32_t mode) = 0;  // a path is followed
  virtual Answer chown(const At& at, uint32_t uid, uint32_t gid) = 0;
  virtual Answer utimens(const At& at, const std::array<timespec, 2>& times) = 0;
  virtual Answer truncate(const At& at, uint64_t size) = 0;  // a path is followed
  virtual Answer setxattr(const At& at, const std::string& name, const std::string& value, int flags) = 0;
  virtual Answer getxattr(const At& at, const std::string& name, uint32_t room, std::string& value) = 0;
  virtual Answer listxattr(const At& at, uint32_t room, std::vector<std::string>& names) = 0;
  virtual Answer removexattr(const At& at, const std::string& name) = 0;

  // The whole listing but "." and "..", which must be there; read through a small buffer.
  virtual Answer list(const std::string& path, std::vector<Entry>& entries) = 0;
  virtual Answer statfs(Space& space) = 0;
};

}  // namespace turnbox::differential
