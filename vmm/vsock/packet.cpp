#include "vmm/vsock/packet.h"

#include "vmm/sys/bytes.h"

namespace turnbox::vsock {
namespace {

// Offsets of struct virtio_vsock_hdr, which is packed.
enum : size_t {
  kSrcCid = 0,
  kDstCid = 8,
  kSrcPort = 16,
  kDstPort = 20,
  kLen = 24,
  kType = 28,
  kOp = 30,
  kFlags = 32,
  kBufAlloc = 36,
  kFwdCnt = 40,
};
static_assert(kFwdCnt + sizeof(uint32_t) == kHeaderSize);

}  // namespace

Header decode_header(std::span<const std::byte, kHeaderSize> bytes) {
  const std::byte* at = bytes.data();
  Header header;
  header.src_cid = sys::load_le<uint64_t>(at + kSrcCid);
  header.dst_cid = sys::load_le<uint64_t>(at + kDstCid);
  header.src_port = sys::load_le<uint32_t>(at + kSrcPort);
  header.dst_port = sys::load_le<uint32_t>(at + kDstPort);
  header.len = sys::load_le<uint32_t>(at + kLen);
  header.type = sys::load_le<uint16_t>(at + kType);
  header.op = static_cast<Op>(sys::load_le<uint16_t>(at + kOp));
  header.flags = sys::load_le<uint32_t>(at + kFlags);
  header.buf_alloc = sys::load_le<uint32_t>(at + kBufAlloc);
  header.fwd_cnt = sys::load_le<uint32_t>(at + kFwdCnt);
  return header;
}

void encode_header(const Header& header, std::span<std::byte, kHeaderSize> into) {
  std::byte* at = into.data();
  sys::store_le(at + kSrcCid, header.src_cid);
  sys::store_le(at + kDstCid, header.dst_cid);
  sys::store_le(at + kSrcPort, header.src_port);
  sys::store_le(at + kDstPort, header.dst_port);
  sys::store_le(at + kLen, header.len);
  sys::store_le(at + kType, header.type);
  sys::store_le(at + kOp, static_cast<uint16_t>(header.op));
  sys::store_le(at + kFlags, header.flags);
  sys::store_le(at + kBufAlloc, header.buf_alloc);
  sys::store_le(at + kFwdCnt, header.fwd_cnt);
}

}  // namespace turnbox::vsock
