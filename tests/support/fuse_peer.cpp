#include "tests/support/fuse_peer.h"

#include <fcntl.h>

#include <cstring>

namespace turnbox::support {

FuseReply FusePeer::send(std::span<const std::byte> message, size_t room, unsigned queue) {
  const sys::Bytes written = exchange(message, room, queue);
  FuseReply reply;
  reply.used = static_cast<uint32_t>(written.size());
  if (written.size() < sizeof(fuse_out_header)) return reply;
  const auto head = sys::load_le<fuse_out_header>(written.data());
  reply.error = -head.error;
  reply.unique = head.unique;
  reply.length = head.len;
  reply.body.assign(written.begin() + sizeof(head), written.end());
  return reply;
}

sys::Bytes FusePeer::message(uint32_t opcode, uint64_t node, const sys::Bytes& arguments,
                             const std::function<void(fuse_in_header&)>& change) {
  fuse_in_header head{};
  head.len = static_cast<uint32_t>(sizeof(head) + arguments.size());
  head.opcode = opcode;
  head.unique = unique_ += 2;
  head.nodeid = node;
  head.uid = uid;
  head.gid = gid;
  head.pid = 1;
  if (change) change(head);
  return pack(head, arguments);
}

FuseReply FusePeer::call(uint32_t opcode, uint64_t node, const sys::Bytes& arguments, size_t room,
                         const std::function<void(fuse_in_header&)>& change) {
  return send(message(opcode, node, arguments, change), room);
}

FuseReply FusePeer::init(uint64_t flags, uint32_t major, uint32_t minor) {
  fuse_init_in in{};
  in.major = major;
  in.minor = minor;
  in.max_readahead = 131'072;
  in.flags = static_cast<uint32_t>(flags);
  in.flags2 = static_cast<uint32_t>(flags >> 32);
  return call(FUSE_INIT, 0, pack(in));
}

FuseReply FusePeer::lookup(uint64_t dir, std::string_view name) { return call(FUSE_LOOKUP, dir, pack(name)); }

uint64_t FusePeer::walk(std::string_view path) {
  uint64_t node = kRoot;
  while (!path.empty() && node != 0) {
    const size_t end = std::min(path.find('/'), path.size());
    const FuseReply reply = lookup(node, path.substr(0, end));
    node = reply.error == 0 ? reply.as<fuse_entry_out>().nodeid : 0;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return node;
}

FuseReply FusePeer::getattr(uint64_t node) { return call(FUSE_GETATTR, node, pack(fuse_getattr_in{})); }

FuseReply FusePeer::setattr(uint64_t node, const fuse_setattr_in& in) { return call(FUSE_SETATTR, node, pack(in)); }

FuseReply FusePeer::mkdir(uint64_t dir, std::string_view name, uint32_t mode) {
  return call(FUSE_MKDIR, dir, pack(fuse_mkdir_in{.mode = mode, .umask = 022}, name));
}

FuseReply FusePeer::create(uint64_t dir, std::string_view name, uint32_t flags, uint32_t mode) {
  const fuse_create_in in{.flags = flags | O_CREAT, .mode = mode, .umask = 022, .open_flags = 0};
  return call(FUSE_CREATE, dir, pack(in, name));
}

FuseReply FusePeer::open(uint64_t node, uint32_t flags) {
  return call(FUSE_OPEN, node, pack(fuse_open_in{.flags = flags, .open_flags = 0}));
}

FuseReply FusePeer::release(uint64_t node, uint64_t handle) {
  return call(FUSE_RELEASE, node, pack(fuse_release_in{.fh = handle, .flags = 0, .release_flags = 0, .lock_owner = 0}));
}

FuseReply FusePeer::read(uint64_t node, uint64_t handle, uint64_t offset, uint32_t size) {
  fuse_read_in in{};
  in.fh = handle;
  in.offset = offset;
  in.size = size;
  return call(FUSE_READ, node, pack(in), sizeof(fuse_out_header) + size);
}

FuseReply FusePeer::write(uint64_t node, uint64_t handle, uint64_t offset, std::string_view bytes, uint32_t flags) {
  fuse_write_in in{};
  in.fh = handle;
  in.offset = offset;
  in.size = static_cast<uint32_t>(bytes.size());
  in.write_flags = flags;
  const auto payload = sys::as_bytes(bytes);
  return call(FUSE_WRITE, node, pack(in, sys::Bytes(payload.begin(), payload.end())));
}

FuseReply FusePeer::unlink(uint64_t dir, std::string_view name) { return call(FUSE_UNLINK, dir, pack(name)); }

FuseReply FusePeer::rename(uint64_t from, std::string_view old_name, uint64_t to, std::string_view new_name,
                           uint32_t flags) {
  if (flags == 0) return call(FUSE_RENAME, from, pack(fuse_rename_in{to}, old_name, new_name));
  return call(FUSE_RENAME2, from, pack(fuse_rename2_in{.newdir = to, .flags = flags, .padding = 0}, old_name, new_name));
}

FuseReply FusePeer::opendir(uint64_t node) {
  return call(FUSE_OPENDIR, node, pack(fuse_open_in{.flags = 0, .open_flags = 0}));
}

FuseReply FusePeer::readdir(uint64_t node, uint64_t handle, uint64_t cookie, uint32_t size, bool plus) {
  fuse_read_in in{};
  in.fh = handle;
  in.offset = cookie;
  in.size = size;
  return call(plus ? FUSE_READDIRPLUS : FUSE_READDIR, node, pack(in), sizeof(fuse_out_header) + size);
}

void FusePeer::forget(uint64_t node, uint64_t count, unsigned queue) {
  send(message(FUSE_FORGET, node, pack(fuse_forget_in{count})), 0, queue);
}

std::vector<DirEntry> FusePeer::entries(const FuseReply& reply, bool plus) {
  std::vector<DirEntry> found;
  const size_t head = plus ? sizeof(fuse_entry_out) : 0;
  size_t at = 0;
  while (at + head + sizeof(fuse_dirent) <= reply.body.size()) {
    DirEntry entry;
    if (plus) entry.plus = sys::load_le<fuse_entry_out>(reply.body.data() + at);
    const auto dirent = sys::load_le<fuse_dirent>(reply.body.data() + at + head);
    const size_t end = at + head + sizeof(fuse_dirent) + dirent.namelen;
    if (end > reply.body.size()) break;
    entry.ino = dirent.ino;
    entry.cookie = dirent.off;
    entry.type = dirent.type;
    entry.name.assign(reinterpret_cast<const char*>(reply.body.data() + at + head + sizeof(fuse_dirent)),
                      dirent.namelen);
    found.push_back(entry);
    at = (end + 7) & ~size_t{7};
  }
  return found;
}

}  // namespace turnbox::support
