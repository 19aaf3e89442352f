// The FUSE server of one device: checks a request by its row of the opcode table, runs its handler, counts.
//
// Private to fs/virtiofs. Handlers stand by subject: session_ops, name_ops, attr_ops, xattr_ops, file_ops,
// range_ops, dir_ops (.cpp). A handler gets a checked request and a reply with room for its fixed part; it
// returns an errno, or puts the body.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "fs/virtiofs/device.h"
#include "fs/virtiofs/opcodes.h"
#include "fs/virtiofs/reply.h"
#include "fs/virtiofs/request.h"
#include "fs/virtiofs/session.h"
#include "vmm/sys/log.h"

namespace turnbox::virtiofs {

class Server {
 public:
  Server(fs::Tree& tree, Options options);

  // Serves one chain; returns used.len. On the hiprio queue only requests without a reply are served.
  uint32_t serve(const vhost::Chain& chain, bool hiprio);
  void end_session() { session_.end(); }

  const Options& options() const { return options_; }
  const Session& session() const { return session_; }
  const Counters& counters() const { return counters_; }
  uint64_t seen(uint32_t code) const { return seen_[code]; }

  // session_ops.cpp
  fs::Expected<void> init(const Request& request, Reply& reply);
  fs::Expected<void> destroy(const Request& request, Reply& reply);
  fs::Expected<void> forget(const Request& request, Reply& reply);
  fs::Expected<void> batch_forget(const Request& request, Reply& reply);
  fs::Expected<void> ignore(const Request& request, Reply& reply);
  fs::Expected<void> syncfs(const Request& request, Reply& reply);
  fs::Expected<void> statfs(const Request& request, Reply& reply);
  // name_ops.cpp
  fs::Expected<void> lookup(const Request& request, Reply& reply);
  fs::Expected<void> symlink(const Request& request, Reply& reply);
  fs::Expected<void> mknod(const Request& request, Reply& reply);
  fs::Expected<void> mkdir(const Request& request, Reply& reply);
  fs::Expected<void> link(const Request& request, Reply& reply);
  fs::Expected<void> unlink(const Request& request, Reply& reply);
  fs::Expected<void> rmdir(const Request& request, Reply& reply);
  fs::Expected<void> rename(const Request& request, Reply& reply);
  fs::Expected<void> rename2(const Request& request, Reply& reply);
  // attr_ops.cpp
  fs::Expected<void> getattr(const Request& request, Reply& reply);
  fs::Expected<void> setattr(const Request& request, Reply& reply);
  fs::Expected<void> readlink(const Request& request, Reply& reply);
  // file_ops.cpp
  fs::Expected<void> open(const Request& request, Reply& reply);
  fs::Expected<void> create(const Request& request, Reply& reply);
  fs::Expected<void> read(const Request& request, Reply& reply);
  fs::Expected<void> write(const Request& request, Reply& reply);
  fs::Expected<void> lseek(const Request& request, Reply& reply);
  fs::Expected<void> release(const Request& request, Reply& reply);
  fs::Expected<void> tmpfile(const Request& request, Reply& reply);
  // range_ops.cpp
  fs::Expected<void> fallocate(const Request& request, Reply& reply);
  fs::Expected<void> copy_file_range(const Request& request, Reply& reply);
  // xattr_ops.cpp
  fs::Expected<void> setxattr(const Request& request, Reply& reply);
  fs::Expected<void> getxattr(const Request& request, Reply& reply);
  fs::Expected<void> listxattr(const Request& request, Reply& reply);
  fs::Expected<void> removexattr(const Request& request, Reply& reply);
  // dir_ops.cpp
  fs::Expected<void> opendir(const Request& request, Reply& reply);
  fs::Expected<void> readdir(const Request& request, Reply& reply);
  fs::Expected<void> readdirplus(const Request& request, Reply& reply);
  fs::Expected<void> releasedir(const Request& request, Reply& reply);

 private:
  struct DirWriter;

  // server.cpp
  fs::Expected<Request> admit(const vhost::Chain& chain, const Opcode* op, const fuse_in_header& head,
                              vhost::ChainReader reader, bool hiprio);
  fs::Expected<fs::Ino> node(uint64_t node_id);  // resolved and reachable, or counted and ESTALE
  fs::Expected<Handle> handle(uint64_t number, fs::Ino ino, bool directory);  // or counted and EBADF
  tl::unexpected<fs::Errno> malformed(int error, const fuse_in_header& head, const char* rule);
  bool is_turn() const { return options_.contract == Contract::turn; }
  const fs::Zone& zone_of(const fs::Attr& attr) const { return tree_.zone(attr.zone); }
  fs::Expected<fs::Zone> zone_of(fs::Ino ino) const;

  // attr_ops.cpp: what the guest may cache follows from the zones.
  uint64_t timeout(fs::ZoneUse use) const { return use == fs::ZoneUse::plain ? options_.long_timeout_s : 0; }
  fuse_entry_out entry_of(const fs::Attr& attr, fs::ZoneUse parent_use) const;
  fuse_attr_out attr_of(const fs::Attr& attr) const;
  fs::Expected<fs::SetAttr> to_set(const fuse_setattr_in& in) const;
  fs::Expected<fs::SetAttr> of_nothing(const Request& request) const;

  // name_ops.cpp: remembers the node and puts its entry.
  fs::Expected<void> put_entry(const fs::Attr& attr, fs::Ino parent, Reply& reply);
  fs::Expected<void> make(const Request& request, const fs::Tree::NewNode& node, Reply& reply);
  fs::Expected<void> move(const Request& request, uint64_t to, uint32_t flags);

  // file_ops.cpp
  fs::Expected<void> check_open(const fs::Attr& attr, uint32_t flags) const;
  fs::Expected<void> truncate(fs::Ino ino, bool kill_suidgid, const fs::Caller& caller);
  fs::Expected<fuse_open_out> open_handle(const fs::Attr& attr, uint32_t flags);
  fs::Expected<fs::Attr> create_or_find(const Request& request, const fuse_create_in& in);
  fs::Expected<size_t> append_to_log(const Request& request, const fuse_write_in& in);

  // range_ops.cpp: the content of a file may be changed through this handle.
  fs::Expected<void> check_target(fs::Ino ino, uint64_t number);

  // xattr_ops.cpp: the answer to a question for `bytes`, or for their length.
  fs::Expected<void> put_sized(const Request& request, std::span<const std::byte> bytes, Reply& reply);

  // dir_ops.cpp
  fs::Expected<void> list(const Request& request, bool plus, Reply& reply);

  fs::Tree& tree_;
  const Options options_;
  Session session_;
  Counters counters_;
  std::array<uint64_t, kOpcodes> seen_{};
  sys::LogLimit log_;
  ArgBuffer args_{};
  std::vector<std::span<const std::byte>> spans_;  // of one READ
  std::vector<std::byte> line_;                    // of one write to a log; a value, or names, of attributes
};

}  // namespace turnbox::virtiofs
