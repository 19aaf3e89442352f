// Verbs on extended attributes. They are data here: what they mean is the kernels'.
#include <cerrno>

#include "fs/tree/state.h"

namespace turnbox::fs {

Expected<void> check_xattr_name(std::string_view name) {
  if (name.empty()) return err(EINVAL);
  if (name.size() > kMaxXattrName) return err(ERANGE);
  if (name.find('\0') != name.npos) return err(EINVAL);
  for (const std::string_view space : {"user.", "trusted.", "security."}) {
    if (!name.starts_with(space)) continue;
    if (name.size() == space.size()) return err(EINVAL);
    return {};
  }
  return err(EOPNOTSUPP);
}

Expected<void> Tree::setxattr(Ino ino, std::string_view name, std::span<const std::byte> value,
                              XattrMode mode, const Caller& caller) {
  State& state = *state_;
  TRY_ASSIGN(const Inode* found, state.get(ino));
  TRY(check_xattr_name(name));
  if (value.size() > kMaxXattrValue) return err(E2BIG);
  TRY(state.may_change(*found, caller));
  const Xattr* old = Xattrs::find(found->xattrs, name);
  if (old != nullptr && mode == XattrMode::create) return err(EEXIST);
  if (old == nullptr && mode == XattrMode::replace) return err(ENODATA);
  const uint64_t more = name.size() + value.size(), less = old != nullptr ? old->bytes() : 0;
  if (Xattrs::bytes(found->xattrs) - less + more > kMaxXattrBytes) return err(ENOSPC);
  if (old == nullptr && (Xattrs::all(found->xattrs).size() >= kMaxXattrs ||
                         Xattrs::list_bytes(found->xattrs) + name.size() + 1 > kMaxXattrList)) {
    return err(ENOSPC);
  }
  if (more > less) TRY(state.room_for_xattrs(more - less));

  Inode* inode = state.edit(ino);
  state.put_xattr(*inode, name, value);
  inode->set_ctime(state.now());
  state.settle();
  return {};
}

Expected<void> Tree::removexattr(Ino ino, std::string_view name, const Caller& caller) {
  State& state = *state_;
  TRY_ASSIGN(const Inode* found, state.get(ino));
  TRY(check_xattr_name(name));
  TRY(state.may_change(*found, caller));
  if (Xattrs::find(found->xattrs, name) == nullptr) return err(ENODATA);

  Inode* inode = state.edit(ino);
  state.erase_xattr(*inode, name);
  inode->set_ctime(state.now());
  state.settle();
  return {};
}

}  // namespace turnbox::fs
