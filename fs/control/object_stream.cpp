#include "fs/control/object_stream.h"

#include <algorithm>

#include "vmm/sys/memfd.h"

namespace turnbox::control {
namespace {

constexpr size_t kFlushAt = size_t{1} << 20;

}  // namespace

sys::Result<ObjectStreamWriter> ObjectStreamWriter::make() {
  ObjectStreamWriter writer;
  TRY_ASSIGN(writer.file_, sys::make_memfd("turnbox-objects"));
  return writer;
}

sys::Status ObjectStreamWriter::put(ObjectKind kind, const sys::Digest& digest, sys::ByteSpan bytes) {
  if (bytes.size() > kMaxObject) {
    return sys::fail(sys::ErrorKind::limit,
                     "an object of " + std::to_string(bytes.size()) +
                         " bytes is too large to record; a directory has too many names");
  }
  sys::append_le(pending_, static_cast<uint32_t>(kind));  // the kind's byte and three zero bytes
  sys::append_le(pending_, static_cast<uint32_t>(bytes.size()));
  sys::append(pending_, digest.bytes);
  sys::append(pending_, bytes);
  ++objects_;
  return pending_.size() < kFlushAt ? sys::Status{} : flush();
}

sys::Status ObjectStreamWriter::flush() {
  TRY(sys::write_full(file_.get(), pending_));
  written_ += pending_.size();
  pending_.clear();
  return {};
}

sys::Result<sys::Fd> ObjectStreamWriter::finish() {
  TRY(flush());
  TRY(sys::seal_memfd(file_.get()));
  return std::move(file_);
}

sys::Status read_object_stream(sys::ByteSpan bytes,
                               const std::function<sys::Status(ObjectKind kind, const sys::Digest& digest,
                                                               sys::ByteSpan bytes)>& visit) {
  sys::ByteReader reader(bytes);
  while (reader.remaining() > 0) {
    const auto kind = reader.take_le<uint32_t>();
    const auto size = reader.take_le<uint32_t>();
    const auto name = reader.take(32);
    const auto body = reader.take(size.value_or(0));
    if (reader.failed() || *kind < 1 || *kind > 6 || *size > kMaxObject) {
      return sys::fail(sys::ErrorKind::protocol, "turnbox-fsd sent a broken object stream");
    }
    sys::Digest digest;
    std::copy(name->begin(), name->end(), digest.bytes.begin());
    TRY(visit(static_cast<ObjectKind>(*kind), digest, *body));
  }
  return {};
}

}  // namespace turnbox::control
