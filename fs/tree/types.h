// The values that go into and come out of the tree. Knows no FUSE, no virtio, no sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <tl/expected.hpp>

namespace turnbox::fs {

using Ino = uint64_t;  // never reused; stable across copy-on-write, snapshots and stored records
inline constexpr Ino kNoIno = 0;

// An errno value, the only error of the tree. Positive (ENOENT, not -ENOENT).
enum class Errno : int {};
template <typename T>
using Expected = tl::expected<T, Errno>;
inline tl::unexpected<Errno> err(int value) {
  return tl::unexpected<Errno>(Errno{value});
}

enum class Type : uint8_t { regular, directory, symlink, character, block, fifo, socket };

struct Time {
  int64_t sec = 0;
  uint32_t nsec = 0;  // < 1,000,000,000
  auto operator<=>(const Time&) const = default;
};

// A zone is a set of inodes under one rule: an inode gets its parent directory's zone at creation, and link
// and rename between zones are EXDEV (as XFS projects). Sealing a stage flips one zone: O(1).
using ZoneId = uint32_t;
enum class ZoneState : uint8_t {
  writable,
  sealed,  // mutations by a guest answer EROFS; the host's are allowed
  stale,   // every guest access answers ESTALE (an old workspace epoch)
};
enum class ZoneUse : uint8_t {
  plain,   // only the guest changes it, or nobody: long time-outs are right
  shared,  // the host adds and changes names: time-outs 0
  log,     // an event log: appends are checked by fs/turn
};
struct Zone {
  ZoneState state = ZoneState::writable;
  ZoneUse use = ZoneUse::plain;
};

struct Attr {
  Ino ino = kNoIno;
  Type type = Type::regular;
  uint16_t mode = 0;  // 07777 bits only
  uint32_t nlink = 0;
  uint32_t uid = 0, gid = 0;
  uint32_t rdev = 0;  // Linux new_encode_dev(): minor 8 low bits | major 12 bits << 8 | minor high bits << 20
  uint64_t size = 0;  // bytes; a directory: its number of entries; a symlink: its target's length
  uint64_t blocks = 0;       // 512-byte blocks really held
  Time atime, mtime, ctime;  // reading does not move atime (as noatime); create and setattr do
  ZoneId zone = 0;
};

// Who asks. The kernel has done permission checks at both doors (default_permissions).
struct Caller {
  uint32_t uid = 0, gid = 0;
  uint32_t umask = 0;  // applied by the door, not by the tree, unless set here
  bool host = false;   // turnbox itself: passes zones that are sealed
};

// Fields to set; empty ones stay.
struct SetAttr {
  enum Bits : uint32_t {
    kMode = 1,
    kUid = 2,
    kGid = 4,
    kSize = 8,
    kAtime = 16,
    kMtime = 32,
    kCtime = 64,
    kKillSuidgid = 128
  };
  uint32_t valid = 0;  // of Bits
  uint16_t mode = 0;
  uint32_t uid = 0, gid = 0;
  uint64_t size = 0;
  Time atime, mtime, ctime;
};

struct Dirent {
  Ino ino;
  Type type;
  std::string_view name;  // any bytes but NUL and '/'; 1..255; valid inside the visitor call only
  uint64_t cookie;  // resume after this entry; 256 ≤ cookie < 2^63 - 256, stable while names come and go
};

// What a sandbox may hold at most; each limit answers its own errno.
struct Budget {
  uint64_t bytes = uint64_t{4} << 30;         // file content, in whole pages: ENOSPC
  uint64_t inodes = 4'000'000;                // ENOSPC
  uint64_t name_bytes = uint64_t{1} << 30;    // names and symlink targets: ENOSPC
  uint64_t xattr_bytes = uint64_t{64} << 20;  // ENOSPC
  uint64_t handles = 65'536;                  // ENFILE; open files, counted by the doors
};

// `bytes` are the pages really held, those included that only snapshots still hold. `handles` is 0 here.
struct Usage {
  uint64_t bytes = 0, inodes = 0, name_bytes = 0, xattr_bytes = 0, handles = 0;
};

// What the tree takes of the host's memory.
struct Memory {
  uint64_t node_bytes = 0;    // inodes, names, indexes
  uint64_t page_bytes = 0;    // content
  uint64_t mapped_bytes = 0;  // of the kernel, for both
};

}  // namespace turnbox::fs
