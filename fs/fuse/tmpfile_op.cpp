// O_TMPFILE. Its request is newer than the libfuse we build with, which would refuse it, so it is taken out
// of the kernel's bytes before libfuse sees them: the one request whose layout we read ourselves
// (<linux/fuse.h>).
#include <linux/fuse.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "fs/fuse/server.h"
#include "vmm/sys/result.h"

namespace turnbox::fuse {
namespace {

struct Made {
  fuse_entry_out entry;
  fuse_open_out open;
};

fuse_attr to_wire(const struct stat& attr) {
  return {.ino = attr.st_ino,
          .size = static_cast<uint64_t>(attr.st_size),
          .blocks = static_cast<uint64_t>(attr.st_blocks),
          .atime = static_cast<uint64_t>(attr.st_atim.tv_sec),
          .mtime = static_cast<uint64_t>(attr.st_mtim.tv_sec),
          .ctime = static_cast<uint64_t>(attr.st_ctim.tv_sec),
          .atimensec = static_cast<uint32_t>(attr.st_atim.tv_nsec),
          .mtimensec = static_cast<uint32_t>(attr.st_mtim.tv_nsec),
          .ctimensec = static_cast<uint32_t>(attr.st_ctim.tv_nsec),
          .mode = attr.st_mode,
          .nlink = static_cast<uint32_t>(attr.st_nlink),
          .uid = attr.st_uid,
          .gid = attr.st_gid,
          .rdev = static_cast<uint32_t>(attr.st_rdev),
          .blksize = static_cast<uint32_t>(attr.st_blksize),
          .flags = 0};
}

}  // namespace

fs::Expected<fs::Attr> Server::make_unnamed(const fuse_in_header& head, std::span<const char> args) {
  TRY_ASSIGN(fs::Tree * tree, writable());
  TRY_ASSIGN(const fs::Ino dir, node(head.nodeid));
  fuse_create_in in{};
  if (args.size() < sizeof in) return fs::err(EINVAL);
  std::memcpy(&in, args.data(), sizeof in);
  return tree->create_unnamed(dir, static_cast<uint16_t>(in.mode & 07777),
                              {.uid = head.uid, .gid = head.gid});
}

bool Server::serve_tmpfile(int device, std::span<const char> request) {
  fuse_in_header head{};
  if (request.size() < sizeof head) return false;
  std::memcpy(&head, request.data(), sizeof head);
  if (head.opcode != FUSE_TMPFILE) return false;
  count();
  fuse_out_header out{.len = sizeof(fuse_out_header), .error = 0, .unique = head.unique};
  Made made{};
  const auto attr = make_unnamed(head, request.subspan(sizeof head));
  if (attr) {
    lookups_.remember(attr->ino);
    options_.tree.unhold(attr->ino);  // it was made held, for whoever made it
    opened_.remember(attr->ino);
    made.open.fh = attr->ino;
    made.entry.nodeid = attr->ino;
    made.entry.entry_valid = made.entry.attr_valid = static_cast<uint64_t>(timeout());
    made.entry.attr = to_wire(stat_of(*attr));
    made.open.open_flags = options_.lasting ? FOPEN_KEEP_CACHE : 0U;
    out.len += sizeof made;
  } else {
    out.error = -static_cast<int32_t>(attr.error());
  }
  const std::array<iovec, 2> parts{{{&out, sizeof out}, {&made, sizeof made}}};
  const bool told = ::writev(device, parts.data(), attr ? 2 : 1) >= 0;
  if (attr && !told && errno == ENOENT) {  // the caller was interrupted
    lookups_.forget(attr->ino, 1);
    opened_.forget(attr->ino, 1);
  }
  return true;
}

}  // namespace turnbox::fuse
