// Digests of a snapshot's subtree, and the objects that make it up (docs/RECORD.md, «Objects»).
//
// Runs on any thread over a Snapshot and changes no node. What was hashed is kept in a DigestCache, keyed by
// inode and its content version, so that the cost of the next seal follows what changed since.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "fs/tree/tree.h"
#include "vmm/sys/digest.h"

namespace turnbox::fs {

enum class ObjectKind : uint8_t { chunk = 1, list = 2, file = 3, dir = 4, symlink = 5, node = 6 };
std::string_view name_of(ObjectKind kind);  // the digest kind: "chunk", "list", …

struct TreeDigest {
  sys::Digest content;  // of the root object (a dir, or a file)
  ObjectKind kind;
  sys::Digest meta;  // digest of the `file` object over the meta bytes
  uint64_t files = 0, dirs = 0,
           bytes = 0;  // by path: a file with two names counts twice; `files` are all but dirs
};

class DigestCache {
 public:
  DigestCache();
  ~DigestCache();
  struct State;  // fs/tree/digest_cache.h

 private:
  friend Expected<TreeDigest> digest_tree(const Snapshot&, Ino, DigestCache&);
  friend Expected<void> emit_objects(
      const Snapshot&, Ino, DigestCache&, const std::function<bool(ObjectKind, const sys::Digest&)>&,
      const std::function<void(ObjectKind, const sys::Digest&, std::span<const std::byte>)>&);
  std::unique_ptr<State> state_;
};

// May run on another thread; one call at a time per cache. ENOENT: no such inode; EINVAL: the root is neither
// a directory nor a regular file; ENAMETOOLONG, EFBIG: a path below it or its meta is longer than a record
// can hold.
Expected<TreeDigest> digest_tree(const Snapshot& snapshot, Ino root, DigestCache& cache);

// Every object of the subtree, the meta file's included, children before parents, duplicates possible. `emit`
// gets the object's kind, digest and bytes. `want` is asked first; an unwanted object is not descended into:
// a store that has an object has what is below it. Errors are digest_tree's, before anything is emitted.
Expected<void> emit_objects(
    const Snapshot& snapshot, Ino root, DigestCache& cache,
    const std::function<bool(ObjectKind, const sys::Digest&)>& want,
    const std::function<void(ObjectKind, const sys::Digest&, std::span<const std::byte>)>& emit);

}  // namespace turnbox::fs
