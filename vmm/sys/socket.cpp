#include "vmm/sys/socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

namespace turnbox::sys {
namespace {

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return fail(ErrorKind::invalid,
                "the socket path " + path + " is longer than 107 bytes; choose a shorter directory");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Result<Fd> unix_socket(int type) {
  Fd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno("cannot create a unix socket");
  return fd;
}

}  // namespace

Result<Fd> listen_unix(const std::string& path, unsigned mode, int backlog) {
  TRY_ASSIGN(const sockaddr_un address, address_of(path));
  TRY_ASSIGN(Fd fd, unix_socket(SOCK_STREAM));
  // fchmod on the socket before bind fixes the mode of the file: no moment with a wider one.
  if (::fchmod(fd.get(), mode) < 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0 ||
      ::chmod(path.c_str(), mode) < 0 || ::listen(fd.get(), backlog) < 0) {
    return fail_errno("cannot listen on " + path);
  }
  return fd;
}

Result<Fd> connect_unix(const std::string& path) {
  TRY_ASSIGN(const sockaddr_un address, address_of(path));
  TRY_ASSIGN(Fd fd, unix_socket(SOCK_STREAM));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) {
    return fail_errno("cannot connect to " + path);
  }
  return fd;
}

Result<std::pair<Fd, Fd>> socket_pair(int type) {
  int fds[2];
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) < 0)
    return fail_errno("cannot create a socket pair");
  return std::pair<Fd, Fd>(Fd(fds[0]), Fd(fds[1]));
}

Result<Peer> peer_of(int fd) {
  ucred cred{};
  socklen_t size = sizeof cred;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
    return fail_errno("cannot read peer credentials");
  return Peer{cred.pid, cred.uid, cred.gid};
}

Result<size_t> send_some_with_fds(int fd, ByteSpan bytes, std::span<const int> fds) {
  TURNBOX_ASSERT(fds.size() <= kMaxPassedFds && !bytes.empty());
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxPassedFds)] = {};
  iovec iov{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  ssize_t n;
  do {
    n = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && errno == EAGAIN) return 0;
  if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
    return fail(ErrorKind::unavailable, "cannot send: the peer closed the connection");
  if (n < 0) return fail_errno("cannot send");
  return static_cast<size_t>(n);
}

Status send_with_fds(int fd, ByteSpan bytes, std::span<const int> fds) {
  while (!bytes.empty()) {
    TRY_ASSIGN(const size_t sent, send_some_with_fds(fd, bytes, fds));
    if (sent == 0) {
      pollfd wait{fd, POLLOUT, 0};
      ::poll(&wait, 1, -1);
      continue;
    }
    fds = {};
    bytes = bytes.subspan(sent);
  }
  return {};
}

Result<Received> receive_with_fds(int fd, std::span<std::byte> into) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxPassedFds)];
  iovec iov{into.data(), into.size()};
  msghdr message{};
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t n;
  do {
    n = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    if (errno == EAGAIN) return fail(ErrorKind::unavailable, "nothing to receive yet");
    if (errno == ECONNRESET) return Received{};  // the peer closed with bytes of ours unread
    return fail_errno("cannot receive");
  }
  Received received;
  received.size = static_cast<size_t>(n);
  received.truncated = (message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int passed;
      std::memcpy(&passed, CMSG_DATA(header) + i * sizeof(int), sizeof passed);
      received.fds.emplace_back(passed);
    }
  }
  return received;
}

}  // namespace turnbox::sys
