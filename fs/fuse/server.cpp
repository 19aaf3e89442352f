#include "fs/fuse/server.h"

#include <cerrno>

#include "vmm/sys/result.h"

namespace turnbox::fuse {

Server::Server(Options options)
    : options_(std::move(options)), lookups_(options_.snapshot == nullptr ? &options_.tree : nullptr) {
  TURNBOX_ASSERT(options_.root && (options_.snapshot == nullptr || !options_.write));
}

fs::Expected<fs::Ino> Server::node(fuse_ino_t number) const {
  const fs::Ino ino = number == FUSE_ROOT_ID ? options_.root() : number;
  TRY(reachable(ino));
  return ino;
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
