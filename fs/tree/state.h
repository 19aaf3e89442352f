// What stands behind Tree, View and Snapshot. Inside fs/tree only.
#pragma once

#include <thread>
#include <vector>

#include "fs/tree/dir.h"
#include "fs/tree/file.h"
#include "fs/tree/hold_table.h"
#include "fs/tree/inode_table.h"
#include "fs/tree/nodes.h"
#include "fs/tree/tree.h"

namespace turnbox::fs {

inline constexpr uint32_t kMaxLinks = 65'000;  // names of one file (as ext4): EMLINK
inline constexpr size_t kMaxName = 255;
inline constexpr size_t kMaxTarget = 4095;

// What a tree holds, beside its nodes: a snapshot has them too, so that a fork can go on from there.
struct Counts {
  Ino next_ino = 1;
  uint64_t inodes = 0, name_bytes = 0, xattr_bytes = 0;
  uint64_t file_pages = 0;  // of all files, a shared page as often as it is shared
  uint64_t unnamed = 0;     // inodes without a name, which are held
};

struct View::Root {
  InodeTable inodes;
  Counts counts;
  uint64_t snapshot_id = 0;  // of this tree; 0: the live tree
  uint64_t serial = 0;       // of the snapshot among those of all trees of its family
  Tree::State* tree = nullptr;
};

// What diff, digest and clone see of a view.
struct Inspect {
  static const InodeTable& inodes(const View& view);
  static uint64_t serial(const View& view);
  static const Heap* heap(const View& view);
};

struct Tree::State {
  State() = default;
  explicit State(const std::shared_ptr<Heap>& heap) : nodes(heap) {}

  Nodes nodes;
  Root live;
  std::vector<Zone> zones{Zone{}};
  HoldTable holds;
  Budget budget;
  Now now;
  std::thread::id owner = std::this_thread::get_id();
  uint64_t snapshots_taken = 0, snapshots_live = 0;
  Ino unnamed_from = kNoIno;  // a fork: where to look on for what its snapshot had without a name

  Counts& counts() { return live.counts; }
  const Counts& counts() const { return live.counts; }

  const Inode* find(Ino ino) const { return live.inodes.find(ino); }
  Inode* edit(Ino ino) { return live.inodes.edit(nodes, ino); }

  // Checks. They change nothing.
  Expected<const Inode*> get(Ino ino) const;        // ENOENT
  Expected<const Inode*> directory(Ino ino) const;  // ENOENT, ENOTDIR; ENOENT if it was removed
  Expected<void> may_change(const Inode& inode, const Caller& caller) const;  // EROFS, ESTALE
  // A directory whose names the caller may change, and a name that can be in it.
  Expected<const Inode*> name_place(Ino dir, std::string_view name, const Caller& caller) const;
  Expected<Dirent> entry(const Inode& dir, std::string_view name) const;              // ENOENT
  Expected<uint64_t> new_cookie(const Inode& dir, std::string_view name) const;       // EEXIST, ENOSPC
  Expected<void> room_for(uint64_t more_inodes, uint64_t more_name_bytes) const;      // ENOSPC
  Expected<void> room_for_xattrs(uint64_t more_bytes) const;                          // ENOSPC
  Expected<void> room_for_pages(const Inode& inode, uint64_t offset, uint64_t size);  // ENOSPC
  Expected<void> room_for_new_pages(uint64_t pages);                                  // ENOSPC

  // Changes. Whatever could fail was checked before.
  Ino add_inode(Type type, uint16_t mode, ZoneId zone, Ino parent);
  void add_name(Ino dir, const Dirent& entry, Time time);
  void drop_name(Ino dir, uint64_t cookie, size_t name_size, Time time);
  void drop_link(Ino ino, Time time);  // of a non-directory; frees it with the last one unless held
  void drop_directory(Ino ino, Time time);
  void free_inode(Ino ino);
  void set_target(Inode& inode, std::string_view target);
  // As a write or a change of owner takes them away: suid, sgid, security.capability.
  void kill_privileges(Inode& inode);
  void put_xattr(Inode& inode, std::string_view name, std::span<const std::byte> value);
  void erase_xattr(Inode& inode, std::string_view name);
  // Runs `change` on the file's content and keeps the count of pages.
  template <typename Change>
  void change_pages(Inode& inode, Change&& change) {
    counts().file_pages -= inode.pages;
    change();
    counts().file_pages += inode.pages;
  }
  bool free_unnamed(unsigned budget_us);  // what a fork has of its snapshot; true while there may be more
  void settle() {
    if (nodes.has_dead()) nodes.settle();
  }  // at the end of every changing verb
};

Expected<void> check_name(std::string_view name);        // EINVAL, ENAMETOOLONG
Expected<void> check_xattr_name(std::string_view name);  // EINVAL, ERANGE, EOPNOTSUPP

// suid, and sgid where the group may execute, as a write or a change of owner clears them.
inline uint16_t without_suidgid(uint16_t mode) {
  constexpr uint16_t kSuid = 04000, kSgid = 02000, kGroupExec = 010;
  if ((mode & kGroupExec) != 0) mode = static_cast<uint16_t>(mode & ~kSgid);
  return static_cast<uint16_t>(mode & ~kSuid);
}

}  // namespace turnbox::fs
