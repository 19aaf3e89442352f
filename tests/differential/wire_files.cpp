// Open files and their content.
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tests/differential/wire_directory.h"

namespace turnbox::differential {

using support::FuseReply;
using support::pack;

namespace {

constexpr uint64_t kMostOffset = INT64_MAX;
constexpr uint32_t kOnlyKernel = O_CREAT | O_EXCL | O_NOCTTY;  // never sent with OPEN
constexpr uint32_t kTmpfile = O_TMPFILE & ~uint32_t{O_DIRECTORY};

bool is_tmpfile(uint32_t flags) {
  return (flags & kTmpfile) != 0;
}
bool wants_write(uint32_t flags) {
  return (flags & O_ACCMODE) != O_RDONLY;
}

}  // namespace

Answer WireDirectory::open(int slot, const std::string& path, uint32_t flags, uint32_t mode) {
  close(slot);
  const Call call(*this);
  Open& open = at(slot);
  const bool create_it = (flags & O_CREAT) != 0, exclusive = create_it && (flags & O_EXCL) != 0;
  Walk found;
  if (const Answer got = walk(path, (flags & O_NOFOLLOW) == 0 && !exclusive, found); got < 0) return got;
  if (is_tmpfile(flags)) return unnamed(open, found, flags, mode);
  if (!found.found) return create_it ? create(open, found, flags, mode) : -ENOENT;
  const uint32_t type = found.node.attr.mode & S_IFMT;
  if (!exclusive && type != S_IFREG && type != S_IFDIR && type != S_IFLNK) return -ENXIO;  // as HostDirectory
  if (exclusive) return -EEXIST;
  if (create_it && type == S_IFDIR) return -EISDIR;
  if (create_it) {
    if (const Answer got = may_create_in_sticky(found.dir(), found.node); got < 0) return got;
  }
  if ((flags & O_DIRECTORY) != 0 && type != S_IFDIR) return -ENOTDIR;
  if (type == S_IFLNK) return -ELOOP;
  return open_found(open, found, flags);
}

Answer WireDirectory::open_found(Open& open, const Walk& found, uint32_t flags) {
  const bool directory = S_ISDIR(found.node.attr.mode), cuts = (flags & O_TRUNC) != 0;
  const bool writes = wants_write(flags) || cuts;
  if (directory && writes) return -EISDIR;
  const bool reads = (flags & O_ACCMODE) != O_WRONLY;
  if (!may(found.node.attr, (reads ? 4U : 0U) | (writes ? 2U : 0U))) return -EACCES;
  open = {.used = true, .directory = directory, .id = found.node.id, .handle = 0, .flags = flags};
  if (options_.handles) {
    fuse_open_in in{};
    in.flags = flags & ~kOnlyKernel;
    if (cuts && who_.uid != 0) in.open_flags = FUSE_OPEN_KILL_SUIDGID;
    const FuseReply reply = ask(directory ? FUSE_OPENDIR : FUSE_OPEN, open.id, pack(in));
    open.used = reply.error == 0;
    open.handle = reply.as<fuse_open_out>().fh;
    return -reply.error;
  }
  if (!cuts) return 0;
  const Answer cut = set_size(open.id, 0, nullptr);
  open.used = cut == 0;
  return cut;
}

Answer WireDirectory::create(Open& open, const Walk& to, uint32_t flags, uint32_t mode) {
  if (!may(to.dir().attr, 3)) return -EACCES;
  fuse_create_in in{};
  in.flags = flags;
  in.mode = S_IFREG | mode_for(to.dir(), mode & 07777);
  in.umask = who_.umask;
  if ((flags & O_TRUNC) != 0 && who_.uid != 0) in.open_flags = FUSE_OPEN_KILL_SUIDGID;
  const FuseReply reply = ask(FUSE_CREATE, to.dir().id, pack(in, to.last));
  if (reply.error != 0) return -reply.error;
  if (reply.body.size() < sizeof(fuse_entry_out) + sizeof(fuse_open_out)) return -EBADMSG;
  const auto opened = sys::load_le<fuse_open_out>(reply.body.data() + sizeof(fuse_entry_out));
  open = {.used = true, .id = take(reply.as<fuse_entry_out>()).id, .handle = opened.fh, .flags = flags};
  return 0;
}

Answer WireDirectory::unnamed(Open& open, const Walk& in_dir, uint32_t flags, uint32_t mode) {
  if (!in_dir.found) return -ENOENT;
  if (!S_ISDIR(in_dir.node.attr.mode)) return -ENOTDIR;
  if (!may(in_dir.node.attr, 3)) return -EACCES;
  fuse_create_in in{};
  in.flags = flags;
  in.mode = S_IFREG | mode_for(in_dir.node, mode & 07777);
  in.umask = who_.umask;
  const FuseReply reply = ask(FUSE_TMPFILE, in_dir.node.id, pack(in, "/"));  // the name that a kernel sends
  if (reply.error == ENOSYS) return -EOPNOTSUPP;
  if (reply.error != 0) return -reply.error;
  if (reply.body.size() < sizeof(fuse_entry_out) + sizeof(fuse_open_out)) return -EBADMSG;
  const auto opened = sys::load_le<fuse_open_out>(reply.body.data() + sizeof(fuse_entry_out));
  open = {.used = true, .id = take(reply.as<fuse_entry_out>()).id, .handle = opened.fh, .flags = flags};
  if ((flags & O_EXCL) == 0) linkable_.insert(open.id);
  return 0;
}

Answer WireDirectory::close(int slot) {
  Open& open = at(slot);
  if (!open.used) return -EBADF;
  open.used = false;
  if (!options_.handles) return 0;
  fuse_release_in in{};
  in.fh = open.handle;
  return -ask(open.directory ? FUSE_RELEASEDIR : FUSE_RELEASE, open.id, pack(in)).error;
}

Answer WireDirectory::read(int slot, uint64_t offset, uint32_t size, std::string& bytes) {
  const Call call(*this);
  const Open& open = at(slot);
  if (!open.used || !open.reads()) return -EBADF;
  if (offset > kMostOffset || size > kMostOffset - offset) return -EINVAL;
  if (open.directory) return -EISDIR;
  const FuseReply reply = [&] {
    fuse_read_in in{};
    in.fh = open.handle;
    in.offset = offset;
    in.size = size;
    return ask(FUSE_READ, open.id, pack(in), sizeof(fuse_out_header) + size);
  }();
  if (reply.error != 0) return -reply.error;
  bytes = reply.text();
  return static_cast<Answer>(bytes.size());
}

Answer WireDirectory::write(int slot, uint64_t offset, const std::string& bytes) {
  const Call call(*this);
  const Open& open = at(slot);
  if (!open.used || !open.writes()) return -EBADF;
  if (offset > kMostOffset || bytes.size() > kMostOffset - offset) return -EINVAL;
  if (bytes.empty()) return 0;
  if ((open.flags & O_APPEND) != 0) {
    fuse_attr attr{};
    if (const Answer got = getattr(open.id, attr, &open); got < 0) return got;
    offset = attr.size;
  }
  if (offset >= kMostOffset) return -EFBIG;
  fuse_write_in in{};
  in.fh = open.handle;
  in.offset = offset;
  in.size = static_cast<uint32_t>(std::min<uint64_t>(bytes.size(), kMostOffset - offset));
  in.flags = open.flags;
  if (who_.uid != 0) in.write_flags = FUSE_WRITE_KILL_SUIDGID;
  const auto payload = sys::as_bytes(bytes).first(in.size);
  const FuseReply reply = ask(FUSE_WRITE, open.id, pack(in, sys::Bytes(payload.begin(), payload.end())));
  return reply.error != 0 ? -reply.error : static_cast<Answer>(reply.as<fuse_write_out>().size);
}

Answer WireDirectory::seek(int slot, uint64_t offset, int whence) {
  const Call call(*this);
  const Open& open = at(slot);
  if (!open.used) return -EBADF;
  if (open.directory) return -EINVAL;  // as HostDirectory
  fuse_lseek_in in{};
  in.fh = open.handle;
  in.offset = offset;
  in.whence = static_cast<uint32_t>(whence);
  const FuseReply reply = ask(FUSE_LSEEK, open.id, pack(in));
  if (reply.error == ENOSYS) {  // the kernel then says that all is data
    fuse_attr attr{};
    if (const Answer got = getattr(open.id, attr, &open); got < 0) return got;
    if (offset >= attr.size) return -ENXIO;
    return static_cast<Answer>(whence == SEEK_DATA ? offset : attr.size);
  }
  return reply.error != 0 ? -reply.error : static_cast<Answer>(reply.as<fuse_lseek_out>().offset);
}

Answer WireDirectory::allocate(int slot, uint32_t mode, uint64_t offset, uint64_t size) {
  const Call call(*this);
  const Open& open = at(slot);
  if (!open.used) return -EBADF;
  if (size == 0) return -EINVAL;
  const uint32_t what = mode & ~uint32_t{FALLOC_FL_KEEP_SIZE};
  if (what != 0 && what != FALLOC_FL_PUNCH_HOLE && what != FALLOC_FL_ZERO_RANGE) return -EOPNOTSUPP;
  if (what == FALLOC_FL_PUNCH_HOLE && (mode & FALLOC_FL_KEEP_SIZE) == 0) return -EOPNOTSUPP;
  if (!open.writes()) return -EBADF;
  if (offset > kMostOffset || size > kMostOffset - offset) return -EFBIG;
  fuse_fallocate_in in{};
  in.fh = open.handle;
  in.offset = offset;
  in.length = size;
  in.mode = mode;
  const FuseReply reply = ask(FUSE_FALLOCATE, open.id, pack(in));
  return reply.error == ENOSYS ? -EOPNOTSUPP : -reply.error;
}

Answer WireDirectory::copy_range(int from_slot, uint64_t from_offset, int to_slot, uint64_t to_offset,
                                 uint64_t size) {
  const Call call(*this);
  const Open &from = at(from_slot), &to = at(to_slot);
  if (!from.used || !to.used) return -EBADF;
  if (from.directory || to.directory) return -EISDIR;
  if (!from.reads() || !to.writes() || (to.flags & O_APPEND) != 0) return -EBADF;
  fuse_attr source{};
  if (const Answer got = getattr(from.id, source, &from); got < 0) return got;
  size = from_offset >= source.size ? 0 : std::min(size, source.size - from_offset);
  if (from.id == to.id && to_offset + size > from_offset && to_offset < from_offset + size) return -EINVAL;
  if (size == 0) return 0;
  fuse_copy_file_range_in in{};
  in.fh_in = from.handle;
  in.off_in = from_offset;
  in.nodeid_out = to.id;
  in.fh_out = to.handle;
  in.off_out = to_offset;
  in.len = size;
  const FuseReply reply = ask(FUSE_COPY_FILE_RANGE, from.id, pack(in));
  return reply.error != 0 ? -reply.error : static_cast<Answer>(reply.as<fuse_write_out>().size);
}

}  // namespace turnbox::differential
