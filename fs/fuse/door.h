// One operator's mount: a directory of the tree, served to this host's kernel over the mount's /dev/fuse
// descriptor.
//
// Owned by fs/control; runs on the thread that owns the tree, in its loop. libfuse reads the requests, which
// it may trust: its peer is the kernel, never a guest. The mount itself was made by whoever passed the
// descriptor; the kernel checks permissions (default_permissions) and keeps the locks.
//
// Invariants:
//  1. A door without `write` answers EROFS to every verb that would change something, before it looks at the
//  tree.
//  2. What the kernel has is held in the tree until it gives it back or the door closes: by a door that
//  writes, whatever it told of; by one that only looks at a live tree, what is open. A look alone keeps
//  nothing that the guest removes, and takes nothing of its budget.
//  3. One wake-up serves a bounded number of requests: other doors and the guest wait no longer than that.
//  4. No exception of ours passes libfuse, and no call of libfuse blocks.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>

#include "fs/tree/tree.h"
#include "vmm/sys/fd.h"

namespace turnbox::fuse {

struct Options {
  fs::Tree& tree;                          // outlives the door; whose budget statfs tells
  const fs::Snapshot* snapshot = nullptr;  // what is shown, or nothing: the tree as it stands
  std::shared_ptr<const void> keep = {};   // lives as long as the door: the lease of the snapshot, the fork
  std::function<fs::Ino()> root;  // the directory that is shown as node 1; of a live tree it may move
  bool write = false;             // never with a snapshot
  bool lasting = false;           // nobody but this door changes what is shown: the kernel may keep it
  std::string name;               // for log lines: «mount 3»
};

class Server;

class Door {
 public:
  // `device` is of /dev/fuse and belongs to a mount. `gone` is called from the loop, once, when the mount
  // went away by itself; not after the door's destruction began. The errors name what is wrong with the
  // descriptor.
  static sys::Result<std::unique_ptr<Door>> open(boost::asio::io_context& io, Options options, sys::Fd device,
                                                 std::function<void()> gone);
  // Closes the descriptor: what still asks at the mount is told ENOTCONN.
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  uint64_t requests() const;  // served so far

 private:
  class Session;
  explicit Door(std::unique_ptr<Session> session);
  std::unique_ptr<Session> session_;
};

}  // namespace turnbox::fuse
