#include "fs/virtiofs/reply.h"

#include <cerrno>

#include "vmm/sys/result.h"

namespace turnbox::virtiofs {

namespace {

vhost::ChainWriter take_header(vhost::ChainWriter& writer) {
  auto header = writer.reserve(sizeof(fuse_out_header));
  TURNBOX_ASSERT(header);
  return *header;
}

}  // namespace

Reply::Reply(vhost::ChainWriter writer, uint64_t unique)
    : body_(writer), header_(take_header(body_)), unique_(unique) {}

fs::Expected<void> Reply::put(std::span<const std::byte> bytes) {
  if (!body_.write(bytes)) return fs::err(EINVAL);
  length_ += static_cast<uint32_t>(bytes.size());  // at most what the chain can hold, below 2^32
  return {};
}

uint32_t Reply::finish() {
  return write_header(length_, 0);
}

// The one place where an errno becomes a reply.
uint32_t Reply::fail(fs::Errno error) {
  return write_header(sizeof(fuse_out_header), -static_cast<int32_t>(error));
}

uint32_t Reply::write_header(uint32_t length, int32_t error) {
  const fuse_out_header header{.len = length, .error = error, .unique = unique_};
  const bool written = header_.write(std::as_bytes(std::span(&header, 1)));
  TURNBOX_ASSERT(written);
  return length;
}

}  // namespace turnbox::virtiofs
