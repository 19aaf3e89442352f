// Extended attributes. Which names are data, and what they may take, is the tree's to say.
#include <sys/xattr.h>

#include <cerrno>

#include "fs/fuse/server.h"
#include "vmm/sys/result.h"

namespace turnbox::fuse {
namespace {

// A caller with no room asks for the size first.
Server::Done reply_bytes(fuse_req_t req, std::span<const char> bytes, size_t room) {
  if (room == 0) {
    fuse_reply_xattr(req, bytes.size());
    return {};
  }
  if (bytes.size() > room) return fs::err(ERANGE);
  fuse_reply_buf(req, bytes.data(), bytes.size());
  return {};
}

}  // namespace

Server::Done Server::getxattr(fuse_req_t req, fuse_ino_t number, const char* name, size_t room) {
  TRY_ASSIGN(const fs::Ino ino, node(number));
  TRY_ASSIGN(const auto value, view().getxattr(ino, name));
  return reply_bytes(req, {reinterpret_cast<const char*>(value.data()), value.size()}, room);
}

Server::Done Server::listxattr(fuse_req_t req, fuse_ino_t number, size_t room) {
  TRY_ASSIGN(const fs::Ino ino, node(number));
  std::string names;
  const bool root = fuse_req_ctx(req)->uid == 0;  // as on tmpfs, others do not see names of trusted.
  TRY(view().listxattr(ino, [&names, root](std::string_view name) {
    if (!root && name.starts_with("trusted.")) return true;
    names.append(name).push_back('\0');
    return true;
  }));
  return reply_bytes(req, names, room);
}

Server::Done Server::setxattr(fuse_req_t req, fuse_ino_t number, const char* name, const char* value,
                              size_t size, int flags) {
  TRY_ASSIGN(fs::Tree * tree, writable());
  TRY_ASSIGN(const fs::Ino ino, node(number));
  auto mode = fs::Tree::XattrMode::either;
  if (flags == XATTR_CREATE) {
    mode = fs::Tree::XattrMode::create;
  } else if (flags == XATTR_REPLACE) {
    mode = fs::Tree::XattrMode::replace;
  } else if (flags == (XATTR_CREATE | XATTR_REPLACE)) {  // always fails, with one or the other errno
    mode = tree->getxattr(ino, name) ? fs::Tree::XattrMode::create : fs::Tree::XattrMode::replace;
  } else if (flags != 0) {
    return fs::err(EINVAL);
  }
  TRY(tree->setxattr(ino, name, std::as_bytes(std::span(value, size)), mode, caller(req)));
  fuse_reply_err(req, 0);
  return {};
}

Server::Done Server::removexattr(fuse_req_t req, fuse_ino_t number, const char* name) {
  TRY_ASSIGN(fs::Tree * tree, writable());
  TRY_ASSIGN(const fs::Ino ino, node(number));
  TRY(tree->removexattr(ino, name, caller(req)));
  fuse_reply_err(req, 0);
  return {};
}

}  // namespace turnbox::fuse
