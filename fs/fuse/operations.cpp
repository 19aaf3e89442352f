// The seam: libfuse's table of C callbacks, each made of one handler.
#include <cerrno>
#include <new>

#include "fs/fuse/server.h"

namespace turnbox::fuse {
namespace {

// The callback of a handler: no exception passes it, and an errno becomes the reply. Handlers reply last, so
// whatever was thrown was thrown before.
template <auto kHandler>
struct Callback;

template <typename... Args, Server::Done (Server::*kHandler)(fuse_req_t, Args...)>
struct Callback<kHandler> {
  static void call(fuse_req_t req, Args... args) noexcept {
    auto& server = *static_cast<Server*>(fuse_req_userdata(req));
    server.count();
    int error = 0;
    try {
      const Server::Done done = (server.*kHandler)(req, args...);
      if (!done) error = static_cast<int>(done.error());
    } catch (const std::bad_alloc&) {
      error = ENOMEM;
    }
    if (error != 0) fuse_reply_err(req, error);
  }
};

template <auto kHandler>
struct Plain;  // of a handler that replies by itself

template <typename... Args, void (Server::*kHandler)(fuse_req_t, Args...)>
struct Plain<kHandler> {
  static void call(fuse_req_t req, Args... args) noexcept {
    auto& server = *static_cast<Server*>(fuse_req_userdata(req));
    server.count();
    (server.*kHandler)(req, args...);
  }
};

template <auto kHandler>
constexpr auto kReplies = &Callback<kHandler>::call;

void init(void* server, fuse_conn_info* connection) noexcept {
  static_cast<const Server*>(server)->init(*connection);
}

// What has no row the kernel does by itself or does without, after it was told ENOSYS once: FLUSH, FSYNC and
// FSYNCDIR (there is nothing to flush to), ACCESS (default_permissions), locks.
constexpr fuse_lowlevel_ops kOperations{
    .init = init,
    .lookup = kReplies<&Server::lookup>,
    .forget = &Plain<&Server::forget>::call,
    .getattr = kReplies<&Server::getattr>,
    .setattr = kReplies<&Server::setattr>,
    .readlink = kReplies<&Server::readlink>,
    .mknod = kReplies<&Server::mknod>,
    .mkdir = kReplies<&Server::mkdir>,
    .unlink = kReplies<&Server::unlink>,
    .rmdir = kReplies<&Server::rmdir>,
    .symlink = kReplies<&Server::symlink>,
    .rename = kReplies<&Server::rename>,
    .link = kReplies<&Server::link>,
    .open = kReplies<&Server::open>,
    .read = kReplies<&Server::read>,
    .write = kReplies<&Server::write>,
    .release = kReplies<&Server::release>,
    .opendir = kReplies<&Server::opendir>,
    .readdir = kReplies<&Server::readdir>,
    .releasedir = kReplies<&Server::release>,
    .statfs = kReplies<&Server::statfs>,
    .setxattr = kReplies<&Server::setxattr>,
    .getxattr = kReplies<&Server::getxattr>,
    .listxattr = kReplies<&Server::listxattr>,
    .removexattr = kReplies<&Server::removexattr>,
    .create = kReplies<&Server::create>,
    .forget_multi = &Plain<&Server::forget_multi>::call,
    .fallocate = kReplies<&Server::allocate>,
    .readdirplus = kReplies<&Server::readdirplus>,
    .copy_file_range = kReplies<&Server::copy_range>,
    .lseek = kReplies<&Server::lseek>,
};

}  // namespace

const fuse_lowlevel_ops& Server::operations() {
  return kOperations;
}

}  // namespace turnbox::fuse
