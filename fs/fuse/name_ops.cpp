// Names: looked up, made, linked, moved and removed.
#include <sys/stat.h>

#include <cerrno>

#include "fs/fuse/server.h"
#include "vmm/sys/result.h"

namespace turnbox::fuse {
namespace {

// Device nodes are data: the kernel opens its own device, and not through a mount made nodev.
fs::Expected<fs::Type> node_type(mode_t mode) {
  switch (mode & S_IFMT) {
    case 0:
    case S_IFREG:
      return fs::Type::regular;
    case S_IFCHR:
      return fs::Type::character;
    case S_IFBLK:
      return fs::Type::block;
    case S_IFIFO:
      return fs::Type::fifo;
    case S_IFSOCK:
      return fs::Type::socket;
    default:
      return fs::err(EINVAL);
  }
}

uint16_t permissions(mode_t mode) {
  return static_cast<uint16_t>(mode & 07777);
}

}  // namespace

Server::Done Server::reply_entry(fuse_req_t req, const fs::Attr& attr) {
  const fuse_entry_param entry = entry_of(attr);
  lookups_.remember(attr.ino);
  // An interrupted caller is gone, and the kernel did not take the node.
  if (fuse_reply_entry(req, &entry) == -ENOENT) lookups_.forget(attr.ino, 1);
  return {};
}

Server::Done Server::lookup(fuse_req_t req, fuse_ino_t parent, const char* name) {
  TRY_ASSIGN(const fs::Ino dir, node(parent));
  const auto attr = view().lookup(dir, name);
  if (attr) {
    TRY(reachable(attr->ino));
    return reply_entry(req, *attr);
  }
  if (attr.error() != fs::Errno{ENOENT} || !options_.lasting) return tl::make_unexpected(attr.error());
  fuse_entry_param missing{};  // node 0: the kernel remembers that there is none
  missing.entry_timeout = timeout();
  fuse_reply_entry(req, &missing);
  return {};
}

Server::Done Server::make(fuse_req_t req, fuse_ino_t parent, const char* name,
                          const fs::Tree::NewNode& what) {
  TRY_ASSIGN(fs::Tree * tree, writable());
  TRY_ASSIGN(const fs::Ino dir, node(parent));
  TRY_ASSIGN(const fs::Attr attr, tree->create(dir, name, what, caller(req)));
  return reply_entry(req, attr);
}

Server::Done Server::mknod(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, dev_t rdev) {
  TRY_ASSIGN(const fs::Type type, node_type(mode));
  const bool device = type == fs::Type::character || type == fs::Type::block;
  return make(
      req, parent, name,
      {.type = type,
       .mode = permissions(mode),
       .rdev = device ? static_cast<uint32_t>(rdev) : 0,  // libfuse hands on the kernel's own encoding
       .target = {},
       .zone = {}});
}

Server::Done Server::mkdir(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode) {
  return make(req, parent, name,
              {.type = fs::Type::directory, .mode = permissions(mode), .target = {}, .zone = {}});
}

Server::Done Server::symlink(fuse_req_t req, const char* target, fuse_ino_t parent, const char* name) {
  return make(req, parent, name, {.type = fs::Type::symlink, .mode = 0777, .target = target, .zone = {}});
}

Server::Done Server::link(fuse_req_t req, fuse_ino_t number, fuse_ino_t parent, const char* name) {
  TRY_ASSIGN(fs::Tree * tree, writable());
  TRY_ASSIGN(const fs::Ino ino, node(number));
  TRY_ASSIGN(const fs::Ino dir, node(parent));
  TRY_ASSIGN(const fs::Attr attr, tree->link(ino, dir, name, caller(req)));
  return reply_entry(req, attr);
}

Server::Done Server::unlink(fuse_req_t req, fuse_ino_t parent, const char* name) {
  TRY_ASSIGN(fs::Tree * tree, writable());
  TRY_ASSIGN(const fs::Ino dir, node(parent));
  TRY(tree->unlink(dir, name, caller(req)));
  fuse_reply_err(req, 0);
  return {};
}

Server::Done Server::rmdir(fuse_req_t req, fuse_ino_t parent, const char* name) {
  TRY_ASSIGN(fs::Tree * tree, writable());
  TRY_ASSIGN(const fs::Ino dir, node(parent));
  TRY(tree->rmdir(dir, name, caller(req)));
  fuse_reply_err(req, 0);
  return {};
}

// The flags are Linux's, as the tree's are.
Server::Done Server::rename(fuse_req_t req, fuse_ino_t from, const char* name, fuse_ino_t to,
                            const char* new_name, unsigned flags) {
  TRY_ASSIGN(fs::Tree * tree, writable());
  TRY_ASSIGN(const fs::Ino from_dir, node(from));
  TRY_ASSIGN(const fs::Ino to_dir, node(to));
  TRY(tree->rename(from_dir, name, to_dir, new_name, flags, caller(req)));
  fuse_reply_err(req, 0);
  return {};
}

}  // namespace turnbox::fuse
