// The plain model's verbs on ranges, on extended attributes, and of files without a name.
#include <algorithm>
#include <cerrno>

#include "tests/property/plain_model.h"

namespace turnbox::fs::plain {
namespace {

constexpr uint64_t kMaxFile = (uint64_t{1} << 63) - 1;

bool fits(uint64_t offset, uint64_t size) {
  return offset <= kMaxFile && size <= kMaxFile - offset;
}

int bad_xattr(const std::string& name) {
  if (name.empty()) return EINVAL;
  if (name.size() > 255) return ERANGE;
  for (const std::string space : {"user.", "trusted.", "security."}) {
    if (name.starts_with(space)) return name.size() == space.size() ? EINVAL : 0;
  }
  return EOPNOTSUPP;
}

}  // namespace

Model::Model(const Model& other, const State& state)
    : budget_(other.budget_), now_(other.now_), state_(state), zones_(other.zones_) {
  std::vector<Ino> unnamed;
  for (const auto& [ino, inode] : state_.inodes) {
    if (inode.attr.nlink == 0) unnamed.push_back(ino);
  }
  for (const Ino ino : unnamed) forget(ino);
}

int Model::create_unnamed(Ino dir, uint16_t mode, const Caller& caller, Ino number) {
  if (const int wrong = place(dir, "any", caller)) return wrong;
  if (state_.inodes.size() + 1 > budget_.inodes) return ENOSPC;
  const Inode& parent = state_.inodes.at(dir);
  Inode made;
  made.attr = {.type = Type::regular,
               .mode = static_cast<uint16_t>(mode & ~caller.umask),
               .nlink = 0,
               .uid = caller.uid,
               .gid = (parent.attr.mode & 02000) != 0 ? parent.attr.gid : caller.gid,
               .atime = now_,
               .mtime = now_,
               .ctime = now_,
               .zone = parent.attr.zone};
  made.linkable = true;
  state_.inodes[number] = made;
  hold(number);
  return 0;
}

// Zeros in [offset, end): whole pages go, of others the bytes.
void Model::clear(Inode& inode, uint64_t offset, uint64_t end) {
  std::vector<uint64_t> touched(inode.reserved.begin(), inode.reserved.end());
  for (const auto& [index, page] : inode.pages) touched.push_back(index);
  for (const uint64_t index : touched) {
    const uint64_t begin = std::max(offset, index * kPage), stop = std::min(end, (index + 1) * kPage);
    if (begin >= stop) continue;
    if (stop - begin == kPage) {
      inode.pages.erase(index);
      inode.reserved.erase(index);
    } else if (inode.pages.contains(index)) {
      inode.pages.at(index).replace(begin % kPage, stop - begin, stop - begin, '\0');
    }
  }
}

int Model::allocate(Ino ino, uint64_t offset, uint64_t size, uint32_t mode, const Caller& caller) {
  const auto found = state_.inodes.find(ino);
  if (found == state_.inodes.end()) return ENOENT;
  Inode& inode = found->second;
  if (mode != 0 && mode != 1 && mode != 3 && mode != 16 && mode != 17) return EOPNOTSUPP;
  if (inode.attr.type == Type::directory) return EISDIR;
  if (inode.attr.type != Type::regular) return ENODEV;
  if (size == 0) return EINVAL;
  if (!fits(offset, size)) return EFBIG;
  if (const int wrong = may_change(inode, caller)) return wrong;
  const uint64_t end = offset + size;
  if ((mode & (2 | 16)) != 0) clear(inode, offset, end);
  if ((mode & 2) == 0) {
    for (uint64_t page = offset / kPage; page * kPage < end; ++page) {
      if (!inode.pages.contains(page)) inode.reserved.insert(page);
    }
  }
  if ((mode & 1) == 0) inode.size = std::max(inode.size, end);
  if (!caller.host && caller.uid != 0) kill_privileges(inode);
  inode.attr.mtime = inode.attr.ctime = now_;
  return 0;
}

int64_t Model::copy_range(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset, uint64_t size,
                          bool kill, const Caller& caller) {
  if (!state_.inodes.contains(from) || !state_.inodes.contains(to)) return -ENOENT;
  const Inode source = state_.inodes.at(from);
  Inode& inode = state_.inodes.at(to);
  if (source.attr.type == Type::directory || inode.attr.type == Type::directory) return -EISDIR;
  if (source.attr.type != Type::regular || inode.attr.type != Type::regular) return -EINVAL;
  if (const int wrong = may_change(inode, caller)) return -wrong;
  if (!fits(from_offset, size)) return -EOVERFLOW;
  if (!fits(to_offset, size)) return -EFBIG;
  if (from_offset >= source.size) return 0;
  size = std::min(size, source.size - from_offset);
  if (from == to && from_offset < to_offset + size && to_offset < from_offset + size) return -EINVAL;
  const bool aligned = from_offset % kPage == to_offset % kPage;
  size = std::min(size, uint64_t{1} << (aligned ? 28 : 20));
  if (size == 0) return 0;
  const bool ends_both = from_offset + size == source.size && to_offset + size >= inode.size;
  for (uint64_t done = 0; done < size;) {
    const uint64_t at = to_offset + done, source_at = from_offset + done;
    const uint64_t piece = std::min(kPage - at % kPage, size - done);
    const bool whole = aligned && at % kPage == 0 && (piece == kPage || (ends_both && done + piece == size));
    if (whole) {
      inode.reserved.erase(at / kPage);
      inode.pages.erase(at / kPage);
      const auto page = source.pages.find(source_at / kPage);
      if (page != source.pages.end()) inode.pages.insert({at / kPage, page->second});
    } else {
      State one;
      one.inodes[from] = source;
      const uint64_t kept = inode.size;
      put(inode, at, one.content(from, source_at, piece));
      inode.size = kept;
    }
    done += piece;
  }
  inode.size = std::max(inode.size, to_offset + size);
  if (kill) kill_privileges(inode);
  inode.attr.mtime = inode.attr.ctime = now_;
  return static_cast<int64_t>(size);
}

int Model::setxattr(Ino ino, const std::string& name, const std::string& value, Tree::XattrMode mode,
                    const Caller& caller) {
  const auto found = state_.inodes.find(ino);
  if (found == state_.inodes.end()) return ENOENT;
  if (const int wrong = bad_xattr(name)) return wrong;
  if (value.size() > 65'536) return E2BIG;
  if (const int wrong = may_change(found->second, caller)) return wrong;
  auto& all = found->second.xattrs;
  const auto old = all.find(name);
  if (old != all.end() && mode == Tree::XattrMode::create) return EEXIST;
  if (old == all.end() && mode == Tree::XattrMode::replace) return ENODATA;
  const uint64_t less = old != all.end() ? name.size() + old->second.size() : 0;
  const uint64_t more = name.size() + value.size();
  if (more > less && state_.xattr_bytes - less + more > budget_.xattr_bytes) return ENOSPC;
  state_.xattr_bytes = state_.xattr_bytes - less + more;
  all[name] = value;
  found->second.attr.ctime = now_;
  return 0;
}

int Model::removexattr(Ino ino, const std::string& name, const Caller& caller) {
  const auto found = state_.inodes.find(ino);
  if (found == state_.inodes.end()) return ENOENT;
  if (const int wrong = bad_xattr(name)) return wrong;
  if (const int wrong = may_change(found->second, caller)) return wrong;
  const auto old = found->second.xattrs.find(name);
  if (old == found->second.xattrs.end()) return ENODATA;
  state_.xattr_bytes -= name.size() + old->second.size();
  found->second.xattrs.erase(old);
  found->second.attr.ctime = now_;
  return 0;
}

}  // namespace turnbox::fs::plain
