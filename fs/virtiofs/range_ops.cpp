// Ranges of files: allocated, punched, copied from one file to another.

#include <cerrno>

#include "fs/virtiofs/server.h"
#include "vmm/sys/result.h"

namespace turnbox::virtiofs {

namespace {
constexpr uint64_t kMostCopied = 0x7ffff000;  // what one copy_file_range(2) does at most; fits the reply
}

fs::Expected<void> Server::check_target(fs::Ino ino, uint64_t number) {
  if (is_turn()) {
    TRY_ASSIGN(const Handle at, handle(number, ino, false));
    if (!at.writable) return fs::err(EBADF);
  }
  TRY_ASSIGN(const fs::Zone zone, zone_of(ino));
  if (zone.use == fs::ZoneUse::log) return fs::err(EPERM);
  return {};
}

fs::Expected<void> Server::fallocate(const Request& request, Reply&) {
  const auto in = request.arg<fuse_fallocate_in>();
  TRY(check_target(request.ino, in.fh));
  return tree_.allocate(request.ino, in.offset, in.length, in.mode, request.caller());
}

fs::Expected<void> Server::copy_file_range(const Request& request, Reply& reply) {
  const auto in = request.arg<fuse_copy_file_range_in>();
  if (in.flags != 0) return malformed(EINVAL, request.head, "flags of a copy");
  TRY_ASSIGN(const fs::Ino to, node(in.nodeid_out));
  if (is_turn()) {
    TRY_ASSIGN(const Handle from, handle(in.fh_in, request.ino, false));
    if (!from.readable) return fs::err(EBADF);
  }
  TRY(check_target(to, in.fh_out));
  // No flag says whether the caller may keep suid; root may (CAP_FSETID).
  const bool kill = request.head.uid != 0;
  TRY_ASSIGN(const uint64_t count, tree_.copy_range(request.ino, in.off_in, to, in.off_out,
                                                    std::min(in.len, kMostCopied), kill, request.caller()));
  counters_.bytes_written += count;
  return reply.put_value(fuse_write_out{.size = static_cast<uint32_t>(count), .padding = 0});
}

}  // namespace turnbox::virtiofs
