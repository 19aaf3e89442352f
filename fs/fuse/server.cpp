#include "fs/fuse/server.h"

#include <cerrno>

#include "vmm/sys/result.h"

namespace turnbox::fuse {

Server::Server(Options options)
    : options_(std::move(options)),
      lookups_(options_.write ? &options_.tree : nullptr),
      opened_(options_.lasting ? nullptr : &options_.tree) {
  TURNBOX_ASSERT(options_.root && (options_.snapshot == nullptr || !options_.write));
}

fs::Expected<fs::Ino> Server::node(fuse_ino_t number) const {
  const fs::Ino ino = number == FUSE_ROOT_ID ? options_.root() : number;
  const auto there = reachable(ino);
  if (there) return ino;
  // The kernel knows a node that went meanwhile: told so, it looks its path up again.
  return fs::err(there.error() == fs::Errno{ENOENT} ? ESTALE : static_cast<int>(there.error()));
}

fs::Expected<void> Server::reachable(fs::Ino ino) const {
  if (options_.snapshot != nullptr) return {};  // it shows a state, whatever became of the live one
  return options_.tree.reachable(ino);
}

fs::Expected<fs::Tree*> Server::writable() const {
  if (!options_.write) return fs::err(EROFS);
  return &options_.tree;
}

// The kernel applied the umask already: FUSE_CAP_DONT_MASK is not asked for.
fs::Caller Server::caller(fuse_req_t req) {
  const fuse_ctx* context = fuse_req_ctx(req);
  return {.uid = context->uid, .gid = context->gid};
}

}  // namespace turnbox::fuse
