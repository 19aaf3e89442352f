#include <algorithm>
#include <cerrno>

#include "fs/tree/state.h"

namespace turnbox::fs {
namespace {

constexpr int kSeekData = 3, kSeekHole = 4;

Expected<const Inode*> get(const InodeTable& inodes, Ino ino) {
  const Inode* inode = inodes.find(ino);
  if (inode == nullptr) return err(ENOENT);
  return inode;
}

Expected<const Inode*> directory(const InodeTable& inodes, Ino ino) {
  TRY_ASSIGN(const Inode* inode, get(inodes, ino));
  if (!inode->is_dir()) return err(ENOTDIR);
  return inode;
}

}  // namespace

Attr attr_of(Ino ino, const Inode& inode) {
  return {.ino = ino,
          .type = inode.type,
          .mode = inode.mode,
          .nlink = inode.nlink,
          .uid = inode.uid,
          .gid = inode.gid,
          .rdev = inode.rdev(),
          .size = inode.size,
          .blocks = inode.is_file() ? uint64_t{inode.pages} * (kPageSize / 512) : 0,
          .atime = {inode.atime_sec, inode.atime_nsec},
          .mtime = {inode.mtime_sec, inode.mtime_nsec},
          .ctime = {inode.ctime_sec, inode.ctime_nsec},
          .zone = inode.zone};
}

View::View() = default;
View::~View() = default;

const InodeTable& Inspect::inodes(const View& view) {
  return view.root_->inodes;
}
uint64_t Inspect::serial(const View& view) {
  return view.root_->serial;
}
const Heap* Inspect::heap(const View& view) {
  return view.root_->tree->nodes.heap().get();
}

Expected<Attr> View::getattr(Ino ino) const {
  TRY_ASSIGN(const Inode* inode, get(root_->inodes, ino));
  return attr_of(ino, *inode);
}

Expected<Attr> View::lookup(Ino dir, std::string_view name) const {
  TRY_ASSIGN(const Inode* parent, directory(root_->inodes, dir));
  TRY(check_name(name));
  const auto found = Dir::find(parent->node, name);
  if (!found) return err(ENOENT);
  return attr_of(found->ino, *root_->inodes.find(found->ino));
}

Expected<Ino> View::parent(Ino dir) const {
  TRY_ASSIGN(const Inode* inode, directory(root_->inodes, dir));
  return inode->parent;
}

Expected<std::string_view> View::readlink(Ino ino) const {
  TRY_ASSIGN(const Inode* inode, get(root_->inodes, ino));
  if (inode->type != Type::symlink) return err(EINVAL);
  const auto* blob = static_cast<const Blob*>(inode->node);
  return std::string_view(blob->bytes(), blob->count);
}

Expected<size_t> View::read(Ino ino, uint64_t offset, size_t size,
                            std::vector<std::span<const std::byte>>& spans) const {
  TRY_ASSIGN(const Inode* inode, get(root_->inodes, ino));
  if (inode->is_dir()) return err(EISDIR);
  if (!inode->is_file()) return err(EINVAL);
  if (offset >= inode->size) return size_t{0};
  const size_t there = std::min<uint64_t>(size, inode->size - offset);
  File::read(*inode, offset, there, spans);
  return there;
}

Expected<void> View::readdir(Ino dir, uint64_t cookie,
                             const std::function<bool(const Dirent&)>& visit) const {
  TRY_ASSIGN(const Inode* inode, directory(root_->inodes, dir));
  if (cookie != UINT64_MAX) Dir::scan(inode->node, cookie + 1, visit);
  return {};
}

Expected<uint64_t> View::lseek(Ino ino, uint64_t offset, int whence) const {
  TRY_ASSIGN(const Inode* inode, get(root_->inodes, ino));
  if (whence != kSeekData && whence != kSeekHole) return err(EINVAL);
  if (!inode->is_file()) return err(EINVAL);
  if (offset >= inode->size) return err(ENXIO);
  if (whence == kSeekHole) {
    const uint64_t page = File::next_hole(*inode, offset >> kPageBits);
    return std::clamp(page << kPageBits, offset, inode->size);
  }
  const auto page = File::next_data(*inode, offset >> kPageBits);
  if (!page || *page << kPageBits >= inode->size) return err(ENXIO);
  return std::max(offset, *page << kPageBits);
}

Expected<std::span<const std::byte>> View::getxattr(Ino ino, std::string_view name) const {
  TRY_ASSIGN(const Inode* inode, get(root_->inodes, ino));
  TRY(check_xattr_name(name));
  const Xattr* xattr = Xattrs::find(inode->xattrs, name);
  if (xattr == nullptr) return err(ENODATA);
  return xattr->value();
}

Expected<void> View::listxattr(Ino ino, const std::function<bool(std::string_view)>& visit) const {
  TRY_ASSIGN(const Inode* inode, get(root_->inodes, ino));
  for (const Xattr* xattr : Xattrs::all(inode->xattrs)) {
    if (!visit(xattr->name())) break;
  }
  return {};
}

}  // namespace turnbox::fs
