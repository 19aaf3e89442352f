// A request as its handler sees it: every byte that decides anything was copied out of guest memory once,
// then checked.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "fs/tree/types.h"
#include "fs/virtiofs/opcodes.h"
#include "fs/virtiofs/wire.h"
#include "vmm/sys/bytes.h"
#include "vmm/vhost/queue.h"

namespace turnbox::virtiofs {

struct Request {
  fuse_in_header head;
  std::span<const std::byte> args;  // the fixed arguments, at least as many bytes as the table says
  std::array<std::string_view, 2>
      names;                 // checked names; the second of SYMLINK is its target; or an attribute's
  vhost::ChainReader rest;   // the bytes behind them, still in guest memory: data only
  fs::Ino ino = fs::kNoIno;  // of head.nodeid, for rows that need a node

  template <typename T>
  T arg() const {
    return sys::load_le<T>(args.data());
  }
  fs::Caller caller() const {
    return {.uid = head.uid, .gid = head.gid};
  }  // the kernel has applied the umask
};

// Where the fixed arguments and the names of one request are copied to.
using ArgBuffer = std::array<std::byte, kMaxArgs>;

// Copies and checks what follows the header. `reader` stands behind the header, `head` is a private copy of
// it. EINVAL: lengths or names are not as the row says. ENAMETOOLONG and ENOENT: as for a path of that shape.
fs::Expected<Request> decode(const Opcode& op, const fuse_in_header& head, vhost::ChainReader reader,
                             ArgBuffer& buffer);

// 1..255 bytes, no '/', no NUL, neither "." nor "..".
fs::Expected<void> check_name(std::string_view name);

}  // namespace turnbox::virtiofs
