// What is kept between two digests of one tree. Inside fs/tree only.
#pragma once

#include <unordered_map>

#include "fs/tree/digest.h"
#include "fs/tree/file_object.h"
#include "fs/tree/walk.h"

namespace turnbox::fs {

struct DigestCache::State {
  // A file's digest holds while its inode has this epoch and size; within it a chunk's while its epoch and
  // length do.
  struct FileDigest {
    uint32_t epoch = 0;
    uint64_t size = 0;
    sys::Digest digest;
    std::vector<ChunkDigest> chunks{};  // of files above one chunk
    std::vector<sys::Digest> lists{};   // FileObject::lists()
  };
  std::unordered_map<Ino, FileDigest> files;
  size_t files_kept = 0;  // by the last prune()

  // Of the snapshot digested last: its directories, and the roots that were asked for.
  uint64_t serial = 0;
  std::unordered_map<Ino, sys::Digest> dirs;
  std::unordered_map<Ino, TreeDigest> roots;

  const sys::Digest& file(Ino ino, const Inode& inode);
  void begin(uint64_t snapshot_serial);
  void prune(const InodeTable& inodes);
};

// The digest of a symlink's or a special file's object, and its bytes.
sys::Bytes leaf_object(const Inode& inode);
ObjectKind kind_of(const Inode& inode);
// Appends the row of an entry to its directory's object.
void append_row(sys::Bytes& dir, const Step& step, const sys::Digest& digest);

}  // namespace turnbox::fs
