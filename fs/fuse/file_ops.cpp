// Content: opened, read, written, sought in.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fs/fuse/server.h"
#include "vmm/sys/result.h"

namespace turnbox::fuse {

namespace {
constexpr uint64_t kMostCopied = uint64_t{1}
                                 << 30;  // at once: its answer has 32 bits, and others wait meanwhile
}

// Where nobody else changes anything, ENOSYS tells the kernel to open and close without asking, and to keep
// what it read; life time is by lookup count then, since it forgets no node that is open.
Server::Done Server::open(fuse_req_t req, fuse_ino_t number, fuse_file_info* file) {
  if (options_.lasting) return fs::err(ENOSYS);
  TRY_ASSIGN(const fs::Ino ino, node(number));
  if ((file->flags & O_ACCMODE) != O_RDONLY) TRY(writable());
  file->fh = ino;  // the root's node may mean another inode when it is closed
  opened_.remember(ino);
  if (fuse_reply_open(req, file) == -ENOENT) opened_.forget(ino, 1);
  return {};
}

Server::Done Server::release(fuse_req_t req, fuse_ino_t, fuse_file_info* file) {
  opened_.forget(file->fh, 1);
  fuse_reply_err(req, 0);
  return {};
}

Server::Done Server::create(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode,
                            fuse_file_info* file) {
  TRY_ASSIGN(fs::Tree * tree, writable());
  TRY_ASSIGN(const fs::Ino dir, node(parent));
  TRY_ASSIGN(
      const fs::Attr attr,
      tree->create(
          dir, name,
          {.type = fs::Type::regular, .mode = static_cast<uint16_t>(mode & 07777), .target = {}, .zone = {}},
          caller(req)));
  const fuse_entry_param entry = entry_of(attr);
  file->keep_cache = options_.lasting ? 1U : 0U;
  file->fh = attr.ino;
  lookups_.remember(attr.ino);
  opened_.remember(attr.ino);
  if (fuse_reply_create(req, &entry, file) == -ENOENT) {
    lookups_.forget(attr.ino, 1);
    opened_.forget(attr.ino, 1);
  }
  return {};
}

// From the tree's pages to the kernel, without a copy in between.
Server::Done Server::read(fuse_req_t req, fuse_ino_t number, size_t size, off_t offset, fuse_file_info*) {
  TRY_ASSIGN(const fs::Ino ino, node(number));
  if (offset < 0) return fs::err(EINVAL);
  spans_.clear();
  parts_.clear();
  TRY(view().read(ino, static_cast<uint64_t>(offset), size, spans_));
  for (const auto& span : spans_) parts_.push_back({const_cast<std::byte*>(span.data()), span.size()});
  fuse_reply_iov(req, parts_.data(), static_cast<int>(parts_.size()));
  return {};
}

Server::Done Server::write(fuse_req_t req, fuse_ino_t number, const char* bytes, size_t size, off_t offset,
                           fuse_file_info*) {
  TRY_ASSIGN(fs::Tree * tree, writable());
  TRY_ASSIGN(const fs::Ino ino, node(number));
  if (offset < 0) return fs::err(EINVAL);
  const char* next = bytes;
  const auto fill = [&next](std::span<std::byte> page) {
    std::memcpy(page.data(), next, page.size());
    next += page.size();
  };
  TRY(tree->write(ino, static_cast<uint64_t>(offset), size, fill, false, caller(req)));
  fuse_reply_write(req, size);
  return {};
}

// Who may keep suid and sgid the kernel says by SETATTR, here as for a write.
Server::Done Server::allocate(fuse_req_t req, fuse_ino_t number, int mode, off_t offset, off_t size,
                              fuse_file_info*) {
  TRY_ASSIGN(fs::Tree * tree, writable());
  TRY_ASSIGN(const fs::Ino ino, node(number));
  if (offset < 0 || size <= 0) return fs::err(EINVAL);
  TRY(tree->allocate(ino, static_cast<uint64_t>(offset), static_cast<uint64_t>(size),
                     static_cast<uint32_t>(mode), caller(req)));
  fuse_reply_err(req, 0);
  return {};
}

Server::Done Server::copy_range(fuse_req_t req, fuse_ino_t from, off_t from_offset, fuse_file_info*,
                                fuse_ino_t to, off_t to_offset, fuse_file_info*, size_t size, int flags) {
  TRY_ASSIGN(fs::Tree * tree, writable());
  if (flags != 0 || from_offset < 0 || to_offset < 0) return fs::err(EINVAL);
  TRY_ASSIGN(const fs::Ino source, node(from));
  TRY_ASSIGN(const fs::Ino target, node(to));
  TRY_ASSIGN(
      const uint64_t copied,
      tree->copy_range(source, static_cast<uint64_t>(from_offset), target, static_cast<uint64_t>(to_offset),
                       std::min<uint64_t>(size, kMostCopied), false, caller(req)));
  fuse_reply_write(req, copied);
  return {};
}

// The kernel answers SEEK_SET, SEEK_CUR and SEEK_END itself.
Server::Done Server::lseek(fuse_req_t req, fuse_ino_t number, off_t offset, int whence, fuse_file_info*) {
  TRY_ASSIGN(const fs::Ino ino, node(number));
  if (offset < 0) return fs::err(ENXIO);
  TRY_ASSIGN(const uint64_t found, view().lseek(ino, static_cast<uint64_t>(offset), whence));
  fuse_reply_lseek(req, static_cast<off_t>(found));
  return {};
}

}  // namespace turnbox::fuse
