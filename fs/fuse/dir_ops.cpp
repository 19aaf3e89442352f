// Directories: listed, with or without the nodes' attributes.
//
// "." and ".." are not in the tree; they come first, under cookies that no entry has.
#include <cerrno>
#include <string>

#include "fs/fuse/server.h"
#include "vmm/sys/result.h"

namespace turnbox::fuse {

namespace {
constexpr off_t kDot = 1, kDotDot = 2;
}

// Packs entries into one buffer until one does not fit.
class Server::Listing {
 public:
  Listing(Server& server, fuse_req_t req, std::span<char> room, bool plus)
      : server_(server), req_(req), room_(room), plus_(plus) {}

  size_t used() const { return used_; }
  bool full() const { return full_; }
  const std::vector<fs::Ino>& given() const { return given_; }

  // False: it did not fit, and the listing ends before it. `attr`: the kernel takes the node.
  bool add(std::string_view name, const fs::Attr& attr, uint64_t cookie, bool take) {
    name_ = name;
    const auto rest = room_.subspan(used_);
    size_t size = 0;
    if (plus_) {
      fuse_entry_param entry{};
      if (take) entry = server_.entry_of(attr);
      entry.attr = server_.stat_of(attr);  // node 0: the name alone
      size = fuse_add_direntry_plus(req_, rest.data(), rest.size(), name_.c_str(), &entry,
                                    static_cast<off_t>(cookie));
    } else {
      const struct stat stat = server_.stat_of(attr);
      size =
          fuse_add_direntry(req_, rest.data(), rest.size(), name_.c_str(), &stat, static_cast<off_t>(cookie));
    }
    if (size > rest.size()) {
      full_ = true;
      return false;
    }
    used_ += size;
    if (plus_ && take) given_.push_back(attr.ino);
    return true;
  }

 private:
  Server& server_;
  fuse_req_t req_;
  std::span<char> room_;
  bool plus_;
  bool full_ = false;
  size_t used_ = 0;
  std::string name_;
  std::vector<fs::Ino> given_;
};

Server::Done Server::opendir(fuse_req_t req, fuse_ino_t number, fuse_file_info* file) {
  return open(req, number, file);
}

Server::Done Server::list(fuse_req_t req, fuse_ino_t number, size_t size, off_t offset, bool plus) {
  TRY_ASSIGN(const fs::Ino dir, node(number));
  TRY_ASSIGN(const fs::Ino parent, view().parent(dir));  // ENOTDIR for anything else
  listing_.resize(size);
  Listing listing(*this, req, listing_, plus);
  const auto dots = [&](fs::Ino ino, std::string_view name, off_t cookie) {
    return offset >= cookie ||
           listing.add(name, {.ino = ino, .type = fs::Type::directory}, static_cast<uint64_t>(cookie), false);
  };
  // Above the mount's root is what the kernel knows, and nothing of the tree.
  if (dots(dir, ".", kDot) && dots(number == FUSE_ROOT_ID ? dir : parent, "..", kDotDot)) {
    const uint64_t from = offset <= kDotDot ? 0 : static_cast<uint64_t>(offset);
    TRY(view().readdir(dir, from, [&](const fs::Dirent& entry) {
      if (!plus) return listing.add(entry.name, {.ino = entry.ino, .type = entry.type}, entry.cookie, false);
      const auto attr = view().getattr(entry.ino);
      if (!attr || !reachable(entry.ino)) {
        return listing.add(entry.name, {.ino = entry.ino, .type = entry.type}, entry.cookie, false);
      }
      return listing.add(entry.name, *attr, entry.cookie, true);
    }));
  }
  // Nothing fitted though something was there: an empty reply would say that the listing is over.
  if (listing.full() && listing.used() == 0) return fs::err(EINVAL);
  for (const fs::Ino ino : listing.given()) lookups_.remember(ino);
  if (fuse_reply_buf(req, listing_.data(), listing.used()) == -ENOENT) {
    for (const fs::Ino ino : listing.given()) lookups_.forget(ino, 1);
  }
  return {};
}

Server::Done Server::readdir(fuse_req_t req, fuse_ino_t number, size_t size, off_t offset, fuse_file_info*) {
  return list(req, number, size, offset, false);
}

Server::Done Server::readdirplus(fuse_req_t req, fuse_ino_t number, size_t size, off_t offset,
                                 fuse_file_info*) {
  return list(req, number, size, offset, true);
}

}  // namespace turnbox::fuse
