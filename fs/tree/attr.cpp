// setattr and write.
#include <cerrno>

#include "fs/tree/state.h"

namespace turnbox::fs {
namespace {

constexpr uint32_t kNsecs = 1'000'000'000;

Expected<void> check(const SetAttr& set, const Inode& inode) {
  if ((set.valid & SetAttr::kSize) != 0) {
    if (inode.is_dir()) return err(EISDIR);
    if (!inode.is_file()) return err(EINVAL);
    if (set.size > kMaxFileSize) return err(EFBIG);
  }
  if ((set.valid & SetAttr::kMode) != 0 && (set.mode & ~07777) != 0) return err(EINVAL);
  if ((set.valid & SetAttr::kUid) != 0 && set.uid == UINT32_MAX) return err(EINVAL);
  if ((set.valid & SetAttr::kGid) != 0 && set.gid == UINT32_MAX) return err(EINVAL);
  if ((set.valid & SetAttr::kAtime) != 0 && set.atime.nsec >= kNsecs) return err(EINVAL);
  if ((set.valid & SetAttr::kMtime) != 0 && set.mtime.nsec >= kNsecs) return err(EINVAL);
  if ((set.valid & SetAttr::kCtime) != 0 && set.ctime.nsec >= kNsecs) return err(EINVAL);
  return {};
}

// Whether setting this size, which the file has, would free pages.
bool past_end(const Inode& inode, uint64_t size) {
  return size == inode.size && inode.pages > 0 &&
         File::count(inode, (size + kPageSize - 1) >> kPageBits, UINT64_MAX) > 0;
}

// A change of owner clears suid and sgid, and so does whoever asks; a mode that is set at once has the last
// word.
template <typename Kill>
void apply_mode(Inode& inode, const SetAttr& set, Kill&& kill) {
  if (!inode.is_dir() && (set.valid & (SetAttr::kUid | SetAttr::kGid | SetAttr::kKillSuidgid)) != 0) kill();
  if ((set.valid & SetAttr::kMode) != 0) inode.mode = set.mode;
}

// truncate(2) of a file that is all hole to the size that it has leaves its times (as tmpfs). To nothing it might be an
// open with O_TRUNC, which comes the same way and counts as a change.
bool leaves_times(const SetAttr& set, const Attr& now) {
  constexpr uint32_t kTruncate = SetAttr::kSize | SetAttr::kKillSuidgid;
  return (set.valid & SetAttr::kSize) != 0 && (set.valid & ~kTruncate) == 0 && set.size == now.size &&
         set.size != 0 && now.blocks == 0;
}

}  // namespace

Expected<Attr> Tree::setattr(Ino ino, const SetAttr& set, const Caller& caller) {
  State& state = *state_;
  TRY_ASSIGN(const Inode* found, state.get(ino));
  TRY(state.may_change(*found, caller));
  TRY(check(set, *found));
  if (set.valid == 0) return attr_of(ino, *found);

  const Time time = state.now();
  Inode* inode = state.edit(ino);
  const bool timeless = leaves_times(set, attr_of(ino, *inode));
  apply_mode(*inode, set, [&] { state.kill_privileges(*inode); });
  if ((set.valid & SetAttr::kUid) != 0) inode->uid = set.uid;
  if ((set.valid & SetAttr::kGid) != 0) inode->gid = set.gid;
  if ((set.valid & SetAttr::kSize) != 0) {
    inode->epoch = state.nodes.epoch;
    // The same size again frees what was allocated past the end (as tmpfs).
    if (set.size < inode->size || past_end(*inode, set.size)) {
      state.change_pages(*inode, [&] { File::cut(state.nodes, *inode, set.size); });
    }
    if (!timeless) inode->set_mtime(time);
    inode->size = set.size;
  }
  if ((set.valid & SetAttr::kAtime) != 0) inode->set_atime(set.atime);
  if ((set.valid & SetAttr::kMtime) != 0) inode->set_mtime(set.mtime);
  if (!timeless) inode->set_ctime((set.valid & SetAttr::kCtime) != 0 ? set.ctime : time);
  const Attr attr = attr_of(ino, *inode);
  state.settle();
  return attr;
}

Expected<Attr> Tree::write(Ino ino, uint64_t offset, size_t size, const Fill& fill, bool kill_suidgid,
                           const Caller& caller) {
  State& state = *state_;
  TRY_ASSIGN(const Inode* found, state.get(ino));
  if (found->is_dir()) return err(EISDIR);
  if (!found->is_file()) return err(EINVAL);
  TRY(state.may_change(*found, caller));
  if (offset > kMaxFileSize || size > kMaxFileSize - offset) return err(EFBIG);
  if (size == 0) return attr_of(ino, *found);
  Inode* inode = state.edit(ino);  // ours from here, so that what is shared shows in the counts
  TRY(state.room_for_pages(*inode, offset, size));

  const Time time = state.now();
  inode->epoch = state.nodes.epoch;
  state.change_pages(*inode, [&] { File::write(state.nodes, *inode, offset, size, fill); });
  inode->size = std::max<uint64_t>(inode->size, offset + size);
  if (kill_suidgid) state.kill_privileges(*inode);
  inode->set_mtime(time);
  inode->set_ctime(time);
  const Attr attr = attr_of(ino, *inode);
  state.settle();
  return attr;
}

}  // namespace turnbox::fs
