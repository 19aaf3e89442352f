// What is agreed on with the kernel, what it gives back, and what the whole file system says of itself.
#include <algorithm>

#include "fs/fuse/server.h"

namespace turnbox::fuse {

namespace {
constexpr unsigned kBlock = 4096;
constexpr unsigned kMaxName = 255;
constexpr unsigned kReclaimUs = 500;
}  // namespace

// Not among them: HANDLE_KILLPRIV, whose old form cannot tell who may keep suid and sgid on a write, so the
// kernel says by SETATTR when they go; WRITEBACK_CACHE, under which the kernel would keep the times; the
// locks, which are between processes of this host.
void Server::init(fuse_conn_info& connection) const {
  unsigned want = FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS;
  if (options_.lasting) {
    want |= FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_CACHE_SYMLINKS;
  } else {
    want |= FUSE_CAP_AUTO_INVAL_DATA;  // another one writes: what was read goes when size or mtime moved
  }
  connection.want = want & connection.capable;
  connection.time_gran = 1;
}

void Server::forget(fuse_req_t req, fuse_ino_t node, uint64_t count) {
  lookups_.forget(node, count);
  fuse_reply_none(req);
}

void Server::forget_multi(fuse_req_t req, size_t count, fuse_forget_data* forgets) {
  for (size_t i = 0; i < count; ++i) lookups_.forget(forgets[i].ino, forgets[i].nlookup);
  fuse_reply_none(req);
}

Server::Done Server::statfs(fuse_req_t req, fuse_ino_t) {
  (void)options_.tree.reclaim(kReclaimUs);  // what was just let go is free when df asks
  const fs::Budget& budget = options_.tree.budget();
  const fs::Usage usage = options_.tree.usage();
  struct statvfs out {};
  out.f_bsize = kBlock;
  out.f_frsize = kBlock;
  out.f_blocks = budget.bytes / kBlock;
  out.f_bfree = (budget.bytes - std::min(budget.bytes, usage.bytes)) / kBlock;
  out.f_bavail = out.f_bfree;
  out.f_files = budget.inodes;
  out.f_ffree = budget.inodes - std::min(budget.inodes, usage.inodes);
  out.f_favail = out.f_ffree;
  out.f_namemax = kMaxName;
  fuse_reply_statfs(req, &out);
  return {};
}

}  // namespace turnbox::fuse
