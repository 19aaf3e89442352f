// Cuts the front end's byte stream into vhost-user messages and collects the descriptors that came with each.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "vmm/sys/fd.h"
#include "vmm/vhost/messages.h"

namespace turnbox::vhost {

struct Message {
  Header header;
  sys::ByteSpan payload;  // stands until the next call of next()
  std::vector<sys::Fd> fds;
};

class Receiver {
 public:
  // One message from a non-blocking socket; empty: the peer closed. An error of kind unavailable means that
  // the rest has not arrived yet; any other one, that the stream cannot be followed any more.
  sys::Result<std::optional<Message>> next(int fd);

 private:
  size_t missing() const;

  alignas(8) std::array<std::byte, kHeaderSize + kMaxPayload> buffer_;
  size_t have_ = 0;
  std::optional<Header> header_;
  std::vector<sys::Fd> fds_;
};

}  // namespace turnbox::vhost
