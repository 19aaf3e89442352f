// The answer to one request, written once, straight into the guest's buffers.
#pragma once

#include <span>

#include "fs/tree/types.h"
#include "fs/virtiofs/wire.h"
#include "vmm/vhost/queue.h"

namespace turnbox::virtiofs {

class Reply {
 public:
  // The chain's writable part holds at least a reply header.
  Reply(vhost::ChainWriter writer, uint64_t unique);

  size_t room() const { return body_.remaining(); }

  // EINVAL where it does not fit; rows of the opcode table make sure that a fixed reply always does.
  fs::Expected<void> put(std::span<const std::byte> bytes);
  template <typename T>
  fs::Expected<void> put_value(const T& value) {
    return put(std::as_bytes(std::span(&value, 1)));
  }

  // Both write the header and return the reply's whole length, which is used.len.
  uint32_t finish();
  uint32_t fail(fs::Errno error);  // whatever was put before is not told

 private:
  uint32_t write_header(uint32_t length, int32_t error);

  vhost::ChainWriter body_;
  vhost::ChainWriter header_;
  uint64_t unique_;
  uint32_t length_ = sizeof(fuse_out_header);
};

}  // namespace turnbox::virtiofs
