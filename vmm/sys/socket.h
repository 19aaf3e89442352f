// Unix sockets, and descriptors passed beside a message.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "vmm/sys/bytes.h"
#include "vmm/sys/fd.h"

namespace turnbox::sys {

struct Peer {
  pid_t pid;
  uid_t uid;
  gid_t gid;
};

// Paths are limited to 107 bytes (sun_path); longer ones are refused with the path in the text.
Result<Fd> listen_unix(const std::string& path, unsigned mode, int backlog = 16);
Result<Fd> connect_unix(const std::string& path);
Result<std::pair<Fd, Fd>> socket_pair(int type);  // SOCK_STREAM or SOCK_SEQPACKET
Result<Peer> peer_of(int fd);                     // SO_PEERCRED

inline constexpr size_t kMaxPassedFds = 32;

struct Received {
  size_t size = 0;         // 0: the peer closed
  std::vector<Fd> fds;     // close-on-exec
  bool truncated = false;  // MSG_TRUNC or MSG_CTRUNC: bytes or descriptors were lost
};

// One sendmsg; all bytes or an error (loops on short counts; descriptors go with the first byte). SIGPIPE
// never.
Status send_with_fds(int fd, ByteSpan bytes, std::span<const int> fds = {});
// One sendmsg that never waits: the bytes taken, 0 when full; `unavailable` when the peer has gone.
Result<size_t> send_some_with_fds(int fd, ByteSpan bytes, std::span<const int> fds = {});
// One recvmsg. An error of kind unavailable means EAGAIN.
Result<Received> receive_with_fds(int fd, std::span<std::byte> into);

}  // namespace turnbox::sys
