#include "vmm/vsock/dial.h"

#include <sys/socket.h>

#include <array>
#include <cstring>

#include "vmm/sys/bytes.h"

namespace turnbox::vsock {

void encode_dial(const Dial& dial, std::span<std::byte, kDialSize> into) {
  sys::store_le(into.data(), dial.port);
  sys::store_le(into.data() + 4, dial.guest_port);
}

Dial decode_dial(std::span<const std::byte, kDialSize> bytes) {
  return {sys::load_le<uint32_t>(bytes.data()), sys::load_le<uint32_t>(bytes.data() + 4)};
}

sys::Result<sys::Fd> dial_broker(int dial_socket, const Dial& dial) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
    return sys::fail_errno("cannot create a socket pair");
  sys::Fd ours(ends[0]);
  const sys::Fd theirs(ends[1]);
  TRY(sys::set_nonblocking(ours.get()));  // ours only: a broker may want to block on its end

  std::array<std::byte, kDialSize> bytes;
  encode_dial(dial, bytes);
  iovec iov{bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int passed = theirs.get();
  std::memcpy(CMSG_DATA(header), &passed, sizeof passed);

  ssize_t n;
  do {
    n = ::sendmsg(dial_socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EAGAIN || errno == ETOOMANYREFS)) {
    return sys::fail(sys::ErrorKind::unavailable,
                     "the broker does not take connections as fast as the guest makes them");
  }
  if (n < 0) return sys::fail_errno("cannot pass a connection to the broker");
  return ours;
}

}  // namespace turnbox::vsock
