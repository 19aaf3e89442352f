// INIT to DESTROY: what a session agrees on, what the guest gives back, and what the whole file system says
// of itself.

#include <algorithm>
#include <cerrno>

#include "fs/virtiofs/server.h"
#include "vmm/sys/result.h"

namespace turnbox::virtiofs {

namespace {

constexpr uint64_t kCommonFlags =
    FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES | FUSE_HANDLE_KILLPRIV_V2;
// The guest owns the tree: it may cache everything, and opens without asking.
constexpr uint64_t kWorkspaceFlags = kCommonFlags | FUSE_WRITEBACK_CACHE | FUSE_DO_READDIRPLUS |
                                     FUSE_READDIRPLUS_AUTO | FUSE_CACHE_SYMLINKS | FUSE_NO_OPEN_SUPPORT |
                                     FUSE_NO_OPENDIR_SUPPORT;
// The host moves /turn/<thread>, so links are not cached; opens are sent, and truncate with one message.
constexpr uint64_t kTurnFlags = kCommonFlags | FUSE_ATOMIC_O_TRUNC;

constexpr unsigned kReclaimUs = 500;
constexpr uint16_t kMaxBackground = 64;  // read-ahead and writeback requests that the guest keeps in flight

}  // namespace

fs::Expected<void> Server::init(const Request& request, Reply& reply) {
  fuse_init_in in{};  // 16 bytes from a kernel older than 5.17; what a newer one adds behind is not read
  std::memcpy(&in, request.args.data(), std::min(request.args.size(), sizeof(in)));
  if (in.major != kMajor || in.minor < kOldestMinor) return fs::err(EPROTO);

  session_.end();  // a second INIT is a new session, as after a reboot of the guest
  uint64_t offered = in.flags;
  if ((in.flags & FUSE_INIT_EXT) != 0) offered |= uint64_t{in.flags2} << 32;
  const uint64_t flags = offered & (is_turn() ? kTurnFlags : kWorkspaceFlags);
  const bool pages = (flags & FUSE_MAX_PAGES) != 0;
  const fuse_init_out out{
      .major = kMajor,
      .minor = std::min(in.minor, kMinor),
      .max_readahead = in.max_readahead,
      .flags = static_cast<uint32_t>(flags),
      .max_background = kMaxBackground,
      .congestion_threshold = kMaxBackground / 4 * 3,
      .max_write = kMaxIo,
      .time_gran = 1,
      .max_pages = static_cast<uint16_t>(pages ? kMaxPages : 0),
      .map_alignment = 0,
      .flags2 = 0,
      .unused = {},
  };
  session_.begin(flags);
  ++counters_.sessions;
  return reply.put_value(out);
}

fs::Expected<void> Server::destroy(const Request&, Reply&) {
  session_.end();
  return {};
}

fs::Expected<void> Server::forget(const Request& request, Reply&) {
  if (!session_.forget(request.head.nodeid, request.arg<fuse_forget_in>().nlookup))
    ++counters_.forgets_clamped;
  return {};
}

fs::Expected<void> Server::batch_forget(const Request& request, Reply&) {
  const uint32_t count = request.arg<fuse_batch_forget_in>().count;
  vhost::ChainReader rest = request.rest;
  if (count > rest.remaining() / sizeof(fuse_forget_one)) {
    return malformed(EINVAL, request.head, "more forgets than bytes");
  }
  for (uint32_t i = 0; i < count; ++i) {
    fuse_forget_one one{};
    if (!rest.read(std::as_writable_bytes(std::span(&one, 1)))) break;
    if (!session_.forget(one.nodeid, one.nlookup)) ++counters_.forgets_clamped;
  }
  return {};
}

fs::Expected<void> Server::ignore(const Request&, Reply&) {
  return {};
}

// Answered, though there is nothing to do: after an ENOSYS the kernel would no longer wait for its own
// writeback.
fs::Expected<void> Server::syncfs(const Request&, Reply&) {
  return {};
}

fs::Expected<void> Server::statfs(const Request&, Reply& reply) {
  (void)tree_.reclaim(kReclaimUs);  // what was just let go is free when df asks
  const fs::Budget& budget = tree_.budget();
  const fs::Usage usage = tree_.usage();
  const uint64_t free_blocks = (budget.bytes - std::min(budget.bytes, usage.bytes)) / kPageSize;
  fuse_statfs_out out{};
  out.st.blocks = budget.bytes / kPageSize;
  out.st.bfree = free_blocks;
  out.st.bavail = free_blocks;
  out.st.files = budget.inodes;
  out.st.ffree = budget.inodes - std::min(budget.inodes, usage.inodes);
  out.st.bsize = kPageSize;
  out.st.frsize = kPageSize;
  out.st.namelen = kMaxName;
  return reply.put_value(out);
}

}  // namespace turnbox::virtiofs
