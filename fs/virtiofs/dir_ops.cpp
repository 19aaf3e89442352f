// Directories: listing, with or without the nodes' attributes.
//
// "." and ".." are not in the tree. They come first, under cookies that no entry has (wire.h); a cookie given
// back by the guest is only ever compared, so an invented one resumes somewhere or ends, and does no more.

#include <dirent.h>
#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "fs/virtiofs/server.h"
#include "vmm/sys/result.h"

namespace turnbox::virtiofs {

namespace {

uint32_t dirent_type(fs::Type type) {
  switch (type) {
    case fs::Type::regular:
      return DT_REG;
    case fs::Type::directory:
      return DT_DIR;
    case fs::Type::symlink:
      return DT_LNK;
    case fs::Type::character:
      return DT_CHR;
    case fs::Type::block:
      return DT_BLK;
    case fs::Type::fifo:
      return DT_FIFO;
    case fs::Type::socket:
      return DT_SOCK;
  }
  return DT_UNKNOWN;
}

}  // namespace

// Packs entries into the reply until one does not fit.
struct Server::DirWriter {
  Server& server;
  Reply& reply;
  size_t room;  // what the guest asked for, never more than its buffers
  bool plus;
  fs::ZoneUse use;  // of the directory's zone
  bool full = false;
  std::vector<fs::Ino> given;  // nodes to remember once the listing is over

  // False: it did not fit, and the listing ends before it.
  bool add(fs::Ino ino, fs::Type type, std::string_view name, uint64_t cookie, bool with_entry) {
    std::array<std::byte, sizeof(fuse_entry_out) + sizeof(fuse_dirent) + kMaxName + 8> record{};
    const size_t head = plus ? sizeof(fuse_entry_out) : 0;
    const size_t size = FUSE_REC_ALIGN(head + sizeof(fuse_dirent) + name.size());
    if (size > room) {
      full = true;
      return false;
    }
    if (with_entry && server.session_.has_room(given.size() + 1) && server.tree_.reachable(ino)) {
      if (const auto attr =
              server.tree_.getattr(ino)) {  // else the kernel sees node id 0, and asks when it needs it
        sys::store_le(record.data(), server.entry_of(*attr, use));
        given.push_back(ino);
      }
    }
    const fuse_dirent entry{
        .ino = ino, .off = cookie, .namelen = static_cast<uint32_t>(name.size()), .type = dirent_type(type)};
    std::memcpy(record.data() + head, &entry, sizeof(entry));
    std::memcpy(record.data() + head + sizeof(entry), name.data(), name.size());
    if (!reply.put(std::span(record).first(size))) return false;
    room -= size;
    return true;
  }
};

fs::Expected<void> Server::list(const Request& request, bool plus, Reply& reply) {
  const auto in = request.arg<fuse_read_in>();
  if (in.size > kMaxIo || in.size > reply.room()) return malformed(EINVAL, request.head, "size of a listing");
  if (is_turn()) TRY(handle(in.fh, request.ino, true));
  TRY_ASSIGN(const fs::Ino parent, tree_.parent(request.ino));  // ENOTDIR for anything else
  TRY_ASSIGN(const fs::Zone zone, zone_of(request.ino));

  DirWriter writer{
      .server = *this, .reply = reply, .room = in.size, .plus = plus, .use = zone.use, .given = {}};
  bool more = true;
  if (in.offset < kCookieDot) more = writer.add(request.ino, fs::Type::directory, ".", kCookieDot, false);
  if (more && in.offset < kCookieDotDot) {
    more = writer.add(parent, fs::Type::directory, "..", kCookieDotDot, false);
  }
  if (more && in.offset <= kMaxOffset) {
    const uint64_t from = in.offset <= kCookieDotDot ? 0 : in.offset;
    TRY(tree_.readdir(request.ino, from, [&writer, plus](const fs::Dirent& entry) {
      return writer.add(entry.ino, entry.type, entry.name, entry.cookie, plus);
    }));
  }
  for (const fs::Ino ino : writer.given) session_.remember(ino);
  // Nothing fitted though something was there: an empty reply would say that the listing is over.
  if (writer.full && writer.room == in.size) return fs::err(EINVAL);
  return {};
}

fs::Expected<void> Server::readdir(const Request& request, Reply& reply) {
  return list(request, false, reply);
}

fs::Expected<void> Server::readdirplus(const Request& request, Reply& reply) {
  return list(request, true, reply);
}

fs::Expected<void> Server::opendir(const Request& request, Reply& reply) {
  TRY_ASSIGN(const fs::Attr attr, tree_.getattr(request.ino));
  if (attr.type != fs::Type::directory) return fs::err(ENOTDIR);
  TRY_ASSIGN(const fuse_open_out out, open_handle(attr, O_RDONLY));
  return reply.put_value(out);
}

fs::Expected<void> Server::releasedir(const Request& request, Reply&) {
  const uint64_t number = request.arg<fuse_release_in>().fh;
  if (session_.handle(number, request.ino, true)) session_.close(number);
  return {};
}

}  // namespace turnbox::virtiofs
