// Names: looked up, made, linked, moved and removed.

#include <linux/fs.h>
#include <sys/stat.h>

#include <cerrno>

#include "fs/virtiofs/server.h"
#include "vmm/sys/result.h"

namespace turnbox::virtiofs {

namespace {

// Of a mode that MKNOD may carry. Device nodes are data: nothing here ever opens one.
fs::Expected<fs::Type> node_type(uint32_t mode) {
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

uint16_t permissions(uint32_t mode) {
  return static_cast<uint16_t>(mode & 07777);
}

}  // namespace

fs::Expected<void> Server::put_entry(const fs::Attr& attr, fs::Ino parent, Reply& reply) {
  TRY_ASSIGN(const fs::Zone zone, zone_of(parent));
  session_.remember(attr.ino);
  return reply.put_value(entry_of(attr, zone.use));
}

fs::Expected<void> Server::lookup(const Request& request, Reply& reply) {
  if (!session_.has_room()) return fs::err(ENFILE);
  auto attr = tree_.lookup(request.ino, request.names[0]);
  if (attr) {
    TRY(tree_.reachable(attr->ino));
    return put_entry(*attr, request.ino, reply);
  }
  if (attr.error() != fs::Errno{ENOENT}) return tl::make_unexpected(attr.error());
  // A name that only the guest could make is remembered as missing: node id 0 with a time-out.
  TRY_ASSIGN(const fs::Zone zone, zone_of(request.ino));
  if (timeout(zone.use) == 0) return fs::err(ENOENT);
  fuse_entry_out missing{};
  missing.entry_valid = timeout(zone.use);
  return reply.put_value(missing);
}

fs::Expected<void> Server::make(const Request& request, const fs::Tree::NewNode& node, Reply& reply) {
  if (!session_.has_room()) return fs::err(ENFILE);
  TRY_ASSIGN(const fs::Attr attr, tree_.create(request.ino, request.names[0], node, request.caller()));
  return put_entry(attr, request.ino, reply);
}

fs::Expected<void> Server::symlink(const Request& request, Reply& reply) {
  return make(request, {.type = fs::Type::symlink, .mode = 0777, .target = request.names[1], .zone = {}},
              reply);
}

fs::Expected<void> Server::mknod(const Request& request, Reply& reply) {
  const auto in = request.arg<fuse_mknod_in>();
  TRY_ASSIGN(const fs::Type type, node_type(in.mode));
  const bool device = type == fs::Type::character || type == fs::Type::block;
  return make(
      request,
      {.type = type, .mode = permissions(in.mode), .rdev = device ? in.rdev : 0, .target = {}, .zone = {}},
      reply);
}

fs::Expected<void> Server::mkdir(const Request& request, Reply& reply) {
  const auto in = request.arg<fuse_mkdir_in>();
  return make(request, {.type = fs::Type::directory, .mode = permissions(in.mode), .target = {}, .zone = {}},
              reply);
}

fs::Expected<void> Server::link(const Request& request, Reply& reply) {
  TRY_ASSIGN(const fs::Ino old, node(request.arg<fuse_link_in>().oldnodeid));
  if (!session_.has_room()) return fs::err(ENFILE);
  TRY_ASSIGN(const fs::Attr attr, tree_.link(old, request.ino, request.names[0], request.caller()));
  return put_entry(attr, request.ino, reply);
}

fs::Expected<void> Server::unlink(const Request& request, Reply&) {
  return tree_.unlink(request.ino, request.names[0], request.caller());
}

fs::Expected<void> Server::rmdir(const Request& request, Reply&) {
  return tree_.rmdir(request.ino, request.names[0], request.caller());
}

fs::Expected<void> Server::move(const Request& request, uint64_t to, uint32_t flags) {
  TRY_ASSIGN(const fs::Ino dir, node(to));
  return tree_.rename(request.ino, request.names[0], dir, request.names[1], flags, request.caller());
}

fs::Expected<void> Server::rename(const Request& request, Reply&) {
  return move(request, request.arg<fuse_rename_in>().newdir, 0);
}

fs::Expected<void> Server::rename2(const Request& request, Reply&) {
  const auto in = request.arg<fuse_rename2_in>();
  switch (in.flags) {
    case 0:
      return move(request, in.newdir, 0);
    case RENAME_NOREPLACE:
      return move(request, in.newdir, fs::Tree::kNoReplace);
    case RENAME_EXCHANGE:
      return move(request, in.newdir, fs::Tree::kExchange);
    case RENAME_WHITEOUT:
      return move(request, in.newdir, fs::Tree::kWhiteout);
    case RENAME_WHITEOUT | RENAME_NOREPLACE:
      return move(request, in.newdir, fs::Tree::kWhiteout | fs::Tree::kNoReplace);
    default:
      return fs::err(EINVAL);  // an exchange with anything else, unknown bits
  }
}

}  // namespace turnbox::virtiofs
