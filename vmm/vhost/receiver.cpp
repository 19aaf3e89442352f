#include "vmm/vhost/receiver.h"

#include "vmm/sys/socket.h"

namespace turnbox::vhost {

size_t Receiver::missing() const {
  return (header_ ? kHeaderSize + header_->size : kHeaderSize) - have_;
}

sys::Result<std::optional<Message>> Receiver::next(int fd) {
  while (missing() > 0) {
    TRY_ASSIGN(sys::Received received,
               sys::receive_with_fds(fd, std::span(buffer_).subspan(have_, missing())));
    for (sys::Fd& passed : received.fds) fds_.push_back(std::move(passed));
    if (received.truncated || fds_.size() > kMaxRegions) {
      return sys::fail(sys::ErrorKind::protocol, "more descriptors came with a message than any request has");
    }
    if (received.size == 0) return std::nullopt;
    have_ += received.size;
    if (!header_ && missing() == 0) {
      TRY_ASSIGN(header_, parse_header(std::span<const std::byte, kHeaderSize>(buffer_.data(), kHeaderSize)));
    }
  }
  Message message{*header_, sys::ByteSpan(buffer_).subspan(kHeaderSize, header_->size), std::move(fds_)};
  header_.reset();
  have_ = 0;
  fds_.clear();
  return message;
}

}  // namespace turnbox::vhost
