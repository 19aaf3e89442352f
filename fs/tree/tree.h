// The live tree: a persistent map inode number → inode, changed in place where its epoch allows, copied first
// where not.
//
// One thread owns a Tree and calls everything here. A Snapshot taken from it is immutable: any thread may
// read it through View, and it goes back to the owner to be freed, in steps.
//
// Invariants:
//  1. Inode numbers only grow; a number names one inode for ever.
//  2. A Tree change never touches a node reachable from a live Snapshot.
//  3. Only the owner frees: Snapshot's destruction on another thread is an assert; release() takes it back.
//  4. Verbs that fail change nothing.
//  5. An inode without a name lives on while it is held (hold/unhold), then is freed.
//  6. Trees that came from one another by fork() share nodes and pages, and one thread owns them all.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fs/tree/types.h"

namespace turnbox::fs {

// Read verbs, common to the live tree and to snapshots. Spans and views returned point into the tree: they
// are valid until the next change of the live tree, or as long as the snapshot lives.
class View {
 public:
  Expected<Attr> getattr(Ino ino) const;
  Expected<Attr> lookup(Ino dir, std::string_view name) const;  // "." and ".." are not names here: EINVAL
  Expected<Ino> parent(Ino dir) const;                          // of a directory; a root is its own parent
  Expected<std::string_view> readlink(Ino ino) const;
  // Appends spans for [offset, offset+size) cut at the end of the file; a hole is a span of a shared zero
  // page. Returns the number of bytes.
  Expected<size_t> read(Ino ino, uint64_t offset, size_t size,
                        std::vector<std::span<const std::byte>>& spans) const;
  // Entries after `cookie` (0: from the start) in cookie order, without "." and ".."; the visitor returns
  // false to stop (that entry is then not consumed).
  Expected<void> readdir(Ino dir, uint64_t cookie, const std::function<bool(const Dirent&)>& visit) const;
  // SEEK_DATA (3) and SEEK_HOLE (4); EINVAL for other whence; ENXIO past the end.
  // Pages that were only allocated are holes.
  Expected<uint64_t> lseek(Ino ino, uint64_t offset, int whence) const;
  // ENODATA: it has none of this name; EOPNOTSUPP: see setxattr.
  Expected<std::span<const std::byte>> getxattr(Ino ino, std::string_view name) const;
  // Names in the order of their bytes, until `visit` returns false.
  Expected<void> listxattr(Ino ino, const std::function<bool(std::string_view)>& visit) const;

 protected:
  View();
  ~View();
  friend struct Inspect;  // fs/tree/state.h: what diff and digest see
  struct Root;            // the inode table, and whose it is
  Root* root_ = nullptr;
};

class Snapshot;
class DigestCache;  // fs/tree/digest.h

class Tree : public View {
 public:
  using Now = std::function<Time()>;  // CLOCK_REALTIME, or a test's clock
  explicit Tree(const Budget& budget, Now now);
  ~Tree();
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  // A new directory without a parent, root of a device. Owned by the host; never removed.
  Ino make_root(ZoneId zone, uint16_t mode);

  // Zones. Zone 0 is plain and writable from the start.
  ZoneId add_zone(const Zone& zone);
  const Zone& zone(ZoneId id) const;
  void set_zone_state(ZoneId id, ZoneState state);

  // Names. `mode` has permission bits and suid/sgid/sticky (07777); setgid directories are inherited here.
  // `zone`: where the new inode lives when not in its parent's zone (host only).
  struct NewNode {
    Type type = Type::regular;
    uint16_t mode = 0;
    uint32_t rdev = 0;
    std::string_view target = {};  // a symlink's
    std::optional<ZoneId> zone = {};
  };
  Expected<Attr> create(Ino dir, std::string_view name, const NewNode& node, const Caller& caller);
  Expected<Attr> link(Ino ino, Ino dir, std::string_view name, const Caller& caller);
  Expected<void> unlink(Ino dir, std::string_view name, const Caller& caller);
  Expected<void> rmdir(Ino dir, std::string_view name, const Caller& caller);
  // O_TMPFILE: a regular file without a name, which link() may give it. It is held once, for the caller.
  Expected<Attr> create_unnamed(Ino dir, uint16_t mode, const Caller& caller);
  // kWhiteout leaves a character device 0:0 at the old name; not with kExchange.
  enum RenameFlags : uint32_t { kNoReplace = 1, kExchange = 2, kWhiteout = 4 };
  // EXDEV between zones for a guest; the host may move a name anywhere (what is moved keeps its zone).
  Expected<void> rename(Ino from, std::string_view old_name, Ino to, std::string_view new_name,
                        uint32_t flags, const Caller& caller);

  // Attributes and content.
  Expected<Attr> setattr(Ino ino, const SetAttr& set, const Caller& caller);
  // Copies `size` bytes into pages: `fill` is called for consecutive destination spans and must fill each
  // whole.
  using Fill = std::function<void(std::span<std::byte>)>;
  Expected<Attr> write(Ino ino, uint64_t offset, size_t size, const Fill& fill, bool kill_suidgid,
                       const Caller& caller);
  // fallocate(2). `mode`: 0, or FALLOC_FL_KEEP_SIZE (1), PUNCH_HOLE | KEEP_SIZE (2 | 1), ZERO_RANGE (16) with
  // or without KEEP_SIZE; others EOPNOTSUPP. What is allocated reads as zeros, counts, and stays a hole for
  // lseek until it is written.
  Expected<void> allocate(Ino ino, uint64_t offset, uint64_t size, uint32_t mode, const Caller& caller);
  // copy_file_range(2): returns how much, 0 at the end of `from`, less than asked where pages cannot be
  // shared. Whole pages are shared where both offsets have the same place in their pages; holes stay holes.
  // EINVAL: one file, and the ranges overlap.
  Expected<uint64_t> copy_range(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset, uint64_t size,
                                bool kill_suidgid, const Caller& caller);

  // Extended attributes, as data: user., trusted. and security.; other names (system. with its ACLs)
  // EOPNOTSUPP. EINVAL: an empty name, or nothing behind its prefix; ERANGE: a name above 255 bytes; E2BIG: a
  // value above 64 KiB; EEXIST and ENODATA by the mode; ENOSPC: the budget, or more than 1,000 names, 60,000
  // bytes of names or 1 MiB on one inode.
  enum class XattrMode : uint8_t { either, create, replace };
  Expected<void> setxattr(Ino ino, std::string_view name, std::span<const std::byte> value, XattrMode mode,
                          const Caller& caller);
  Expected<void> removexattr(Ino ino, std::string_view name, const Caller& caller);

  // A copy of `from` (file, symlink or whole directory) as `dir`/`name`, pages shared; in `zone`. Host only.
  Expected<Attr> clone(const View& view, Ino from, Ino dir, std::string_view name, ZoneId zone);

  // Life time beyond names: lookup counts and open handles of the doors.
  void hold(Ino ino, uint64_t count = 1);
  void unhold(Ino ino, uint64_t count = 1);

  // Guest access check used by doors before any verb on `ino`: ESTALE for a stale zone, ENOENT when unknown.
  Expected<void> reachable(Ino ino) const;

  const Budget& budget() const;
  Usage usage() const;
  Memory memory() const;

  // O(1). The snapshot sees what the tree is now.
  Snapshot snapshot();
  void release(Snapshot snapshot);
  // Frees what released snapshots alone held, for at most `budget_us` microseconds; true while there is more
  // to free.
  bool reclaim(unsigned budget_us);
  // Called by a verb that left something to reclaim (a large file's last name, say): reclaim() should follow, from the
  // loop. The callee changes nothing in the tree.
  void on_garbage(std::function<void()> garbage);

  // A second live tree that begins as the snapshot and shares every node and page with it: O(1), however
  // large it is. Inode numbers, zones and their states (as they are now), budget and clock are this tree's;
  // holds begin empty. The budget's bytes are those of all trees together, its other counts are each tree's
  // own. Trees and snapshots may go in any order, except that a tree outlives its own snapshots.
  std::unique_ptr<Tree> fork(const Snapshot& snapshot);

 private:
  friend struct View::Root;
  friend struct Inspect;
  friend class Snapshot;
  struct State;
  struct Rename;
  struct Cloner;
  explicit Tree(std::unique_ptr<State> state);
  static void drop(Root& root);
  std::unique_ptr<State> state_;
};

// Move-only token of one snapshot. Reading is thread-safe; Tree::release ends it, and so does its
// destruction, which must happen on the owner's thread and before the tree's.
class Snapshot : public View {
 public:
  Snapshot(Snapshot&&) noexcept;
  Snapshot& operator=(Snapshot&&) noexcept;
  ~Snapshot();
  uint64_t id() const;  // 1, 2, 3, … per tree

 private:
  friend class Tree;
  Snapshot();
};

}  // namespace turnbox::fs
