#include "broker/demand/import_stream.h"

#include "vmm/sys/memfd.h"

namespace turnbox::demand {

ImportStream::ImportStream(const TakePiece& take, size_t piece_bytes)
    : take_(take), piece_bytes_(piece_bytes) {
  sys::append(buffer_, sys::as_bytes("TBIMPRT1"));
}

sys::Status ImportStream::flush(bool more) {
  TRY_ASSIGN(sys::Fd memfd, sys::memfd_with("turnbox-import", buffer_));
  buffer_.clear();
  return take_(std::move(memfd), more);
}

sys::Status ImportStream::put(const ImportHead& head, std::string_view path, sys::ByteSpan body) {
  sys::append_le(buffer_, static_cast<uint8_t>(head.type));
  sys::append_le(buffer_, uint8_t{0});
  sys::append_le(buffer_, head.mode);
  sys::append_le(buffer_, head.uid);
  sys::append_le(buffer_, head.gid);
  sys::append_le(buffer_, head.mtime_sec);
  sys::append_le(buffer_, head.mtime_nsec);
  sys::append_le(buffer_, head.rdev);
  sys::append_le(buffer_, static_cast<uint32_t>(path.size()));
  sys::append_le(buffer_, static_cast<uint64_t>(body.size()));
  sys::append(buffer_, sys::as_bytes(path));
  sys::append(buffer_, body);
  if (head.type != 'e' && buffer_.size() >= piece_bytes_) return flush(true);
  return {};
}

sys::Status ImportStream::put_xattrs(std::string_view path,
                                     const std::vector<std::pair<std::string, std::string>>& xattrs) {
  if (xattrs.empty()) return {};
  sys::Bytes body;
  for (const auto& [name, value] : xattrs) {
    sys::append_le(body, static_cast<uint16_t>(name.size()));
    sys::append(body, sys::as_bytes(name));
    sys::append_le(body, static_cast<uint32_t>(value.size()));
    sys::append(body, sys::as_bytes(value));
  }
  return put({.type = 'a'}, path, body);
}

sys::Status ImportStream::finish() {
  TRY(put({.type = 'e'}, ""));
  return flush(false);
}

}  // namespace turnbox::demand
