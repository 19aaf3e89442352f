// turnbox's wire server as a program sees it, without a kernel: the part of a kernel's VFS that stands
// between a system call and a FUSE request, and the requests.
//
// Modelled here, because a server never sees it: the walk along a path (LOOKUP by LOOKUP, nothing is cached),
// symlinks followed up to forty, «..», directories that would move below themselves, permission bits and the
// sticky bit for uids other than 0, umask, the sgid bits that creating and chmod take away, O_EXCL and the
// type of what is opened, O_APPEND, access modes of open files, links to files without a name, the limits of
// xattrs and of copies, and what kills suid and sgid (HANDLE_KILLPRIV_V2). Lookup counts are kept as a kernel
// keeps them: every entry counts one, an open file or a step of a walk pins its node, and FORGET or
// BATCH_FORGET gives the rest back, now or some calls later. Not modelled, but left to the server: what may
// replace what, whether a directory is empty, names that are too long. fs.protected_* counts
// as this machine has it.
#pragma once

#include <linux/fuse.h>

#include <functional>
#include <map>
#include <set>

#include "tests/differential/file_system.h"
#include "tests/support/fuse_peer.h"

namespace turnbox::differential {

class WireDirectory final : public FileSystem {
 public:
  struct Options {
    std::string name;
    std::string base;                 // the directory of the device in which episodes are made
    bool handles = false;             // the device sends handles (contract turn)
    std::function<void()> rest = {};  // lets the server free what it frees later
  };
  WireDirectory(support::FusePeer& peer, Options options);
  ~WireDirectory() override;

  std::string name() const override { return options_.name; }
  bool tells_holes() const override { return options_.handles; }  // the workspace device serves no LSEEK
  void enter() override;
  void become(const Who& who) override { who_ = who; }

  Answer open(int slot, const std::string& path, uint32_t flags, uint32_t mode) override;
  Answer close(int slot) override;
  Answer read(int slot, uint64_t offset, uint32_t size, std::string& bytes) override;
  Answer write(int slot, uint64_t offset, const std::string& bytes) override;
  Answer seek(int slot, uint64_t offset, int whence) override;
  Answer allocate(int slot, uint32_t mode, uint64_t offset, uint64_t size) override;
  Answer copy_range(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size) override;

  Answer mkdir(const std::string& path, uint32_t mode) override;
  Answer rmdir(const std::string& path) override;
  Answer mknod(const std::string& path, uint32_t mode, uint32_t major, uint32_t minor) override;
  Answer symlink(const std::string& target, const std::string& path) override;
  Answer readlink(const std::string& path, std::string& target) override;
  Answer link(const At& from, const std::string& path) override;
  Answer unlink(const std::string& path) override;
  Answer rename(const std::string& from, const std::string& to, uint32_t flags) override;

  Answer stat(const At& at, Stat& stat) override;
  Answer chmod(const At& at, uint32_t mode) override;
  Answer chown(const At& at, uint32_t uid, uint32_t gid) override;
  Answer utimens(const At& at, const std::array<timespec, 2>& times) override;
  Answer truncate(const At& at, uint64_t size) override;
  Answer setxattr(const At& at, const std::string& name, const std::string& value, int flags) override;
  Answer getxattr(const At& at, const std::string& name, uint32_t room, std::string& value) override;
  Answer listxattr(const At& at, uint32_t room, std::vector<std::string>& names) override;
  Answer removexattr(const At& at, const std::string& name) override;

  Answer list(const std::string& path, std::vector<Entry>& entries) override;
  Answer statfs(Space& space) override;

 private:
  struct Node {
    uint64_t id = 0;
    fuse_attr attr{};
  };
  struct Walk {
    std::vector<Node> above;  // from the root to the directory of the last name
    std::string last;         // empty: the path ended in a directory above, which is `node`
    Node node;
    bool found = false;
    bool at_last = false;  // the last name was reached; what went wrong is about it

    const Node& dir() const { return above.back(); }
    bool is_above(uint64_t id) const;
  };
  struct Open {
    bool used = false, directory = false;
    uint64_t id = 0, handle = 0;
    uint32_t flags = 0;
    bool reads() const { return (flags & 3U) != 1; }
    bool writes() const { return (flags & 3U) != 0; }
  };
  class Call;  // one system call: what it looked up is forgotten at its end

  // wire_walk.cpp: the wire and the walk.
  support::FuseReply ask(uint32_t opcode, uint64_t node, const sys::Bytes& arguments, size_t room = 8192);
  Node take(const fuse_entry_out& entry);  // counts a lookup
  void give_back(bool all);
  Answer lookup(const Node& dir, const std::string& name, Node& found, bool& there);
  Answer getattr(uint64_t id, fuse_attr& attr, const Open* open = nullptr);
  Answer walk(const std::string& path, bool follow, Walk& walk);
  Answer find(const At& at, Node& node);               // what a call is about; ENOENT, EBADF
  Answer place(const std::string& path, Walk& walk);   // where a new name may stand: EEXIST, EACCES
  Answer victim(const std::string& path, Walk& walk);  // a name that may be removed: ENOENT, EACCES, EPERM
  bool may(const fuse_attr& attr, uint32_t mask) const;
  bool owns(const fuse_attr& attr) const { return who_.uid == 0 || who_.uid == attr.uid; }
  Answer may_delete(const Node& dir, const Node& node) const;
  Answer may_follow(const Node& dir, const Node& link) const;
  Answer may_create_in_sticky(const Node& dir, const Node& node) const;
  uint32_t mode_for(const Node& dir, uint32_t mode) const;

  // wire_files.cpp
  Answer open_found(Open& open, const Walk& walk, uint32_t flags);
  Answer create(Open& open, const Walk& walk, uint32_t flags, uint32_t mode);
  Answer unnamed(Open& open, const Walk& walk, uint32_t flags, uint32_t mode);
  Answer set_size(uint64_t id, uint64_t size, const Open* open);
  Open& at(int slot) { return slots_[static_cast<size_t>(slot)]; }

  // wire_attributes.cpp
  Answer setattr(uint64_t id, const fuse_setattr_in& in);
  Answer may_xattr(const Node& node, const std::string& name, bool write) const;

  Answer rename_allowed(const Walk& from, const Walk& to, uint32_t flags) const;
  void sweep();
  Answer empty_out(const std::string& path);

  support::FusePeer& peer_;
  Options options_;
  bool long_setxattr_ = false;
  struct Protected {
    unsigned hardlinks = 0, symlinks = 0, regular = 0;
  } protected_;  // sysctl fs.protected_*, as of the start
  unsigned entered_ = 0, calls_ = 0;
  Node base_, root_;
  Who who_;
  std::array<Open, kSlots> slots_;
  std::map<uint64_t, uint64_t> counts_;  // lookups held, by node
  std::set<uint64_t> linkable_;          // files without a name that may get one
};

class WireDirectory::Call {
 public:
  explicit Call(WireDirectory& wire) : wire_(wire) { ++wire_.calls_; }
  ~Call() { wire_.give_back(wire_.calls_ % 8 == 0); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  WireDirectory& wire_;
};

}  // namespace turnbox::differential
