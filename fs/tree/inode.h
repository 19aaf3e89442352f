// An inode as it stands packed in the inode table's leaves: 96 bytes, its number is its place.
#pragma once

#include <cstdint>

#include "fs/tree/node.h"
#include "fs/tree/types.h"

namespace turnbox::fs {

// The parent of a file made without a name, until it gets one.
inline constexpr Ino kLinkable = UINT64_MAX;

struct Inode {
  union {
    Node* node;    // directory: its entries; symlink: a blob; regular file of height ≥ 1: chunks
    PageRef page;  // regular file of height 0: its only page
  };
  Node* xattrs;  // an XattrSet, or null
  uint64_t size;
  Ino parent;  // a directory's parent; for a file with one name its directory, or kNoIno: not known;
               // kLinkable
  int64_t atime_sec, mtime_sec, ctime_sec;
  uint32_t atime_nsec, mtime_nsec, ctime_nsec;
  uint32_t zone, nlink, uid, gid;
  uint32_t pages;  // held by a regular file; a device: its number
  uint32_t epoch;  // when the content (bytes or size) last changed
  uint16_t mode;   // 07777
  Type type;
  uint8_t height;  // of the content's trie

  bool is_dir() const { return type == Type::directory; }
  bool is_file() const { return type == Type::regular; }
  bool is_device() const { return type == Type::character || type == Type::block; }
  uint32_t rdev() const { return is_device() ? pages : 0; }
  Time mtime() const { return {mtime_sec, mtime_nsec}; }
  void set_atime(Time time) {
    atime_sec = time.sec;
    atime_nsec = time.nsec;
  }
  void set_mtime(Time time) {
    mtime_sec = time.sec;
    mtime_nsec = time.nsec;
  }
  void set_ctime(Time time) {
    ctime_sec = time.sec;
    ctime_nsec = time.nsec;
  }
};
static_assert(sizeof(Inode) == 96);

Attr attr_of(Ino ino, const Inode& inode);

using InodeLeaf = Packed<Inode>;

}  // namespace turnbox::fs
