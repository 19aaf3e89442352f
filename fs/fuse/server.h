// The verbs of one door: a call of libfuse → a verb of the tree → libfuse's reply.
//
// Private to fs/fuse. Handlers stand by subject: session_ops, name_ops, attr_ops, file_ops, dir_ops (.cpp). A
// handler replies last and exactly once, or returns an errno, which is then the reply.
#pragma once

#include <string_view>
#include <vector>

#include "fs/fuse/door.h"
#include "fs/fuse/lookups.h"
#include "fs/fuse/low_level.h"
#include "fs/tree/tree.h"

struct fuse_in_header;

namespace turnbox::fuse {

class Server {
 public:
  explicit Server(Options options);

  static const fuse_lowlevel_ops& operations();
  void end_session() {
    lookups_.end();
    opened_.end();
  }
  uint64_t requests() const { return requests_; }

  using Done = fs::Expected<void>;

  // session_ops.cpp
  void init(fuse_conn_info& connection) const;
  void forget(fuse_req_t req, fuse_ino_t node, uint64_t count);
  void forget_multi(fuse_req_t req, size_t count, fuse_forget_data* forgets);
  Done statfs(fuse_req_t req, fuse_ino_t node);
  // name_ops.cpp
  Done lookup(fuse_req_t req, fuse_ino_t parent, const char* name);
  Done mknod(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, dev_t rdev);
  Done mkdir(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode);
  Done symlink(fuse_req_t req, const char* target, fuse_ino_t parent, const char* name);
  Done link(fuse_req_t req, fuse_ino_t node, fuse_ino_t parent, const char* name);
  Done unlink(fuse_req_t req, fuse_ino_t parent, const char* name);
  Done rmdir(fuse_req_t req, fuse_ino_t parent, const char* name);
  Done rename(fuse_req_t req, fuse_ino_t from, const char* name, fuse_ino_t to, const char* new_name,
              unsigned flags);
  // attr_ops.cpp
  Done getattr(fuse_req_t req, fuse_ino_t node, fuse_file_info* file);
  Done setattr(fuse_req_t req, fuse_ino_t node, struct stat* attr, int valid, fuse_file_info* file);
  Done readlink(fuse_req_t req, fuse_ino_t node);
  // file_ops.cpp
  Done open(fuse_req_t req, fuse_ino_t node, fuse_file_info* file);
  Done release(fuse_req_t req, fuse_ino_t node, fuse_file_info* file);
  Done create(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* file);
  Done read(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset, fuse_file_info* file);
  Done write(fuse_req_t req, fuse_ino_t node, const char* bytes, size_t size, off_t offset,
             fuse_file_info* file);
  Done lseek(fuse_req_t req, fuse_ino_t node, off_t offset, int whence, fuse_file_info* file);
  Done allocate(fuse_req_t req, fuse_ino_t node, int mode, off_t offset, off_t size, fuse_file_info* file);
  Done copy_range(fuse_req_t req, fuse_ino_t from, off_t from_offset, fuse_file_info* from_file,
                  fuse_ino_t to, off_t to_offset, fuse_file_info* to_file, size_t size, int flags);
  // xattr_ops.cpp
  Done getxattr(fuse_req_t req, fuse_ino_t node, const char* name, size_t room);
  Done listxattr(fuse_req_t req, fuse_ino_t node, size_t room);
  Done setxattr(fuse_req_t req, fuse_ino_t node, const char* name, const char* value, size_t size, int flags);
  Done removexattr(fuse_req_t req, fuse_ino_t node, const char* name);
  // tmpfile_op.cpp: answers the request if it is an O_TMPFILE; else false, and libfuse is to have it.
  bool serve_tmpfile(int device, std::span<const char> request);
  // dir_ops.cpp
  Done opendir(fuse_req_t req, fuse_ino_t node, fuse_file_info* file);
  Done readdir(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset, fuse_file_info* file);
  Done readdirplus(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset, fuse_file_info* file);

  void count() { ++requests_; }

 private:
  class Listing;

  const fs::View& view() const {
    return options_.snapshot != nullptr ? *options_.snapshot : view_of(options_.tree);
  }
  static const fs::View& view_of(const fs::Tree& tree) { return tree; }
  fs::Expected<fs::Ino> node(fuse_ino_t number) const;  // ESTALE for what an old epoch's mount still names
  fs::Expected<void> reachable(fs::Ino ino) const;
  fs::Expected<fs::Tree*> writable() const;  // EROFS
  fuse_ino_t number_of(fs::Ino ino) const { return ino == options_.root() ? FUSE_ROOT_ID : ino; }
  static fs::Caller caller(fuse_req_t req);

  // attr_ops.cpp
  double timeout() const;  // of names and attributes, in seconds
  struct stat stat_of(const fs::Attr& attr) const;
  fuse_entry_param entry_of(const fs::Attr& attr) const;
  // name_ops.cpp
  Done reply_entry(fuse_req_t req, const fs::Attr& attr);
  Done make(fuse_req_t req, fuse_ino_t parent, const char* name, const fs::Tree::NewNode& node);
  // tmpfile_op.cpp
  fs::Expected<fs::Attr> make_unnamed(const fuse_in_header& head, std::span<const char> args);
  // dir_ops.cpp
  Done list(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset, bool plus);

  const Options options_;
  Lookups lookups_, opened_;
  uint64_t requests_ = 0;
  std::vector<std::span<const std::byte>> spans_;  // of one READ
  std::vector<iovec> parts_;
  std::vector<char> listing_;  // of one READDIR
};

}  // namespace turnbox::fuse
