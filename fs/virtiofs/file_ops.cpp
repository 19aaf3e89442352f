// Content: open, read, write, seek, release. Bytes are copied once, between the guest's buffers and the
// tree's pages.

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "fs/virtiofs/server.h"
#include "vmm/sys/result.h"

namespace turnbox::virtiofs {

namespace {

constexpr uint32_t kKnownWriteFlags = FUSE_WRITE_CACHE | FUSE_WRITE_LOCKOWNER | FUSE_WRITE_KILL_SUIDGID;
constexpr int kSeekData = 3, kSeekHole = 4;

bool reads(uint32_t flags) {
  return (flags & O_ACCMODE) != O_WRONLY;
}
bool writes(uint32_t flags) {
  return (flags & O_ACCMODE) != O_RDONLY;
}
bool truncates(uint32_t flags) {
  return (flags & O_TRUNC) != 0;
}

// `size` bytes from `offset` end where a file may end.
bool within(uint64_t offset, uint64_t size) {
  return offset <= kMaxOffset && size <= kMaxOffset - offset;
}

}  // namespace

// What the kernel cannot know: sealed zones and event logs.
fs::Expected<void> Server::check_open(const fs::Attr& attr, uint32_t flags) const {
  if (attr.type == fs::Type::directory) return fs::err(EISDIR);
  if (attr.type != fs::Type::regular || (flags & O_ACCMODE) == O_ACCMODE) return fs::err(EINVAL);
  if (!writes(flags) && !truncates(flags)) return {};
  const fs::Zone& zone = zone_of(attr);
  if (zone.state == fs::ZoneState::sealed) return fs::err(EROFS);
  if (zone.use == fs::ZoneUse::log) {
    if ((flags & O_APPEND) == 0 || truncates(flags) || options_.events == nullptr) return fs::err(EPERM);
  }
  return {};
}

fs::Expected<void> Server::truncate(fs::Ino ino, bool kill_suidgid, const fs::Caller& caller) {
  fs::SetAttr set;
  set.valid = fs::SetAttr::kSize | fs::SetAttr::kMtime | (kill_suidgid ? fs::SetAttr::kKillSuidgid : 0U);
  set.mtime = options_.now();  // of an open with O_TRUNC, whatever the size was
  TRY(tree_.setattr(ino, set, caller));
  return {};
}

fs::Expected<fuse_open_out> Server::open_handle(const fs::Attr& attr, uint32_t flags) {
  const fs::ZoneUse use = zone_of(attr).use;
  const bool log = use == fs::ZoneUse::log;
  fuse_open_out out{};
  TRY_ASSIGN(out.fh, session_.open({.ino = attr.ino,
                                    .directory = attr.type == fs::Type::directory,
                                    .readable = reads(flags),
                                    .writable = writes(flags),
                                    .log = log}));
  if (log) out.open_flags = FOPEN_DIRECT_IO;  // a read sees what others appended; a write is one message
  if (use == fs::ZoneUse::plain) {
    out.open_flags = FOPEN_KEEP_CACHE | (attr.type == fs::Type::directory ? FOPEN_CACHE_DIR : 0U);
  }
  return out;
}

fs::Expected<void> Server::open(const Request& request, Reply& reply) {
  const auto in = request.arg<fuse_open_in>();
  TRY_ASSIGN(fs::Attr attr, tree_.getattr(request.ino));
  TRY(check_open(attr, in.flags));
  if (!session_.has_handle_room()) return fs::err(ENFILE);
  if (truncates(in.flags)) {
    TRY(truncate(request.ino, (in.open_flags & FUSE_OPEN_KILL_SUIDGID) != 0, request.caller()));
  }
  TRY_ASSIGN(const fuse_open_out out, open_handle(attr, in.flags));
  return reply.put_value(out);
}

// The kernel takes the name for free. Where it is not, another opener of this guest was faster: open what is
// there.
fs::Expected<fs::Attr> Server::create_or_find(const Request& request, const fuse_create_in& in) {
  auto made = tree_.create(
      request.ino, request.names[0],
      {.type = fs::Type::regular, .mode = static_cast<uint16_t>(in.mode & 07777), .target = {}, .zone = {}},
      request.caller());
  if (made || made.error() != fs::Errno{EEXIST} || (in.flags & O_EXCL) != 0) return made;
  TRY_ASSIGN(const fs::Attr attr, tree_.lookup(request.ino, request.names[0]));
  TRY(tree_.reachable(attr.ino));
  if (attr.type != fs::Type::regular) return fs::err(EEXIST);
  TRY(check_open(attr, in.flags));
  if (truncates(in.flags)) {
    TRY(truncate(attr.ino, (in.open_flags & FUSE_OPEN_KILL_SUIDGID) != 0, request.caller()));
    return tree_.getattr(attr.ino);
  }
  return attr;
}

fs::Expected<void> Server::create(const Request& request, Reply& reply) {
  const auto in = request.arg<fuse_create_in>();
  const uint32_t type = in.mode & S_IFMT;
  if ((type != 0 && type != S_IFREG) || (in.flags & O_ACCMODE) == O_ACCMODE) return fs::err(EINVAL);
  if (!session_.has_room() || (is_turn() && !session_.has_handle_room())) return fs::err(ENFILE);
  TRY_ASSIGN(const fs::Attr attr, create_or_find(request, in));
  fuse_open_out opened{};
  opened.open_flags = FOPEN_KEEP_CACHE;
  if (is_turn()) {
    TRY_ASSIGN(opened, open_handle(attr, in.flags));
  }
  TRY(put_entry(attr, request.ino, reply));
  return reply.put_value(opened);
}

// O_TMPFILE. The kernel sends "/" for a name, which means nothing. Whether link() may name the file is its
// affair.
fs::Expected<void> Server::tmpfile(const Request& request, Reply& reply) {
  const auto in = request.arg<fuse_create_in>();
  const uint32_t type = in.mode & S_IFMT;
  if ((type != 0 && type != S_IFREG) || !writes(in.flags) || (in.flags & O_ACCMODE) == O_ACCMODE)
    return fs::err(EINVAL);
  if (!session_.has_room() || (is_turn() && !session_.has_handle_room())) return fs::err(ENFILE);
  TRY_ASSIGN(const fs::Attr attr,
             tree_.create_unnamed(request.ino, static_cast<uint16_t>(in.mode & 07777), request.caller()));
  const auto answer = [&]() -> fs::Expected<void> {
    fuse_open_out opened{};
    opened.open_flags = FOPEN_KEEP_CACHE;
    if (is_turn()) {
      TRY_ASSIGN(opened, open_handle(attr, in.flags));
    }
    TRY(put_entry(attr, request.ino, reply));
    return reply.put_value(opened);
  };
  const auto done = answer();
  tree_.unhold(attr.ino);  // the session holds it now
  return done;
}

fs::Expected<void> Server::read(const Request& request, Reply& reply) {
  const auto in = request.arg<fuse_read_in>();
  if (in.size > kMaxIo || in.size > reply.room()) return malformed(EINVAL, request.head, "size of a read");
  if (is_turn()) {
    TRY_ASSIGN(const Handle at, handle(in.fh, request.ino, false));
    if (!at.readable) return fs::err(EBADF);
  }
  if (in.offset > kMaxOffset) return fs::err(EINVAL);
  spans_.clear();
  TRY_ASSIGN(const size_t count, tree_.read(request.ino, in.offset, in.size, spans_));
  for (const auto& span : spans_) TRY(reply.put(span));
  counters_.bytes_read += count;
  return {};
}

fs::Expected<size_t> Server::append_to_log(const Request& request, const fuse_write_in& in) {
  if (options_.events == nullptr) return fs::err(EPERM);
  line_.resize(in.size);
  vhost::ChainReader rest = request.rest;
  if (!rest.read(line_)) return fs::err(EINVAL);
  return options_.events->append(request.ino, in.fh, line_);
}

fs::Expected<void> Server::write(const Request& request, Reply& reply) {
  const auto in = request.arg<fuse_write_in>();
  if (in.size != request.rest.remaining()) return malformed(EINVAL, request.head, "size of a write");
  if (in.size > kMaxIo) return malformed(EINVAL, request.head, "write larger than agreed");
  if ((in.write_flags & ~kKnownWriteFlags) != 0) return malformed(EINVAL, request.head, "flags of a write");
  bool log = false;
  if (is_turn()) {
    TRY_ASSIGN(const Handle at, handle(in.fh, request.ino, false));
    if (!at.writable) return fs::err(EBADF);
    log = at.log;
  }
  fuse_write_out out{};
  if (log) {
    TRY_ASSIGN(const size_t count, append_to_log(request, in));  // wherever the offset points
    out.size = static_cast<uint32_t>(count);
  } else {
    if (!within(in.offset, in.size)) return fs::err(EFBIG);
    vhost::ChainReader rest = request.rest;
    const auto fill = [&rest](std::span<std::byte> page) { TURNBOX_ASSERT(rest.read(page)); };
    const bool kill = (in.write_flags & FUSE_WRITE_KILL_SUIDGID) != 0;
    TRY(tree_.write(request.ino, in.offset, in.size, fill, kill, request.caller()));
    out.size = in.size;
  }
  counters_.bytes_written += out.size;
  return reply.put_value(out);
}

fs::Expected<void> Server::lseek(const Request& request, Reply& reply) {
  const auto in = request.arg<fuse_lseek_in>();
  if (in.whence != kSeekData && in.whence != kSeekHole)
    return malformed(EINVAL, request.head, "whence of a seek");
  if (is_turn()) TRY(handle(in.fh, request.ino, false));
  if (in.offset > kMaxOffset) return fs::err(ENXIO);
  fuse_lseek_out out{};
  TRY_ASSIGN(out.offset, tree_.lseek(request.ino, in.offset, static_cast<int>(in.whence)));
  return reply.put_value(out);
}

// Harmless for a number that is not open (any more); another inode's handle stays open.
fs::Expected<void> Server::release(const Request& request, Reply&) {
  const uint64_t number = request.arg<fuse_release_in>().fh;
  if (session_.handle(number, request.ino, false)) session_.close(number);
  return {};
}

}  // namespace turnbox::virtiofs
