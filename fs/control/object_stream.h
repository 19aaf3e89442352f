// Object streams (docs/WIRE.md, «Object stream»): written by fsd into memfds, read by the broker.
#pragma once

#include <functional>

#include "fs/control/protocol.h"

namespace turnbox::control {

inline constexpr size_t kObjectHeader = 40;
inline constexpr size_t kMaxObject = size_t{64} << 20;  // a dir object of a million names stays below this

// Fills one memfd. Bytes gather in a buffer and reach the file in large writes.
class ObjectStreamWriter {
 public:
  static sys::Result<ObjectStreamWriter> make();
  sys::Status put(ObjectKind kind, const sys::Digest& digest, sys::ByteSpan bytes);
  size_t size() const { return written_ + pending_.size(); }
  uint64_t objects() const { return objects_; }
  sys::Result<sys::Fd> finish();  // sealed

 private:
  sys::Status flush();
  sys::Fd file_;
  sys::Bytes pending_;
  size_t written_ = 0;
  uint64_t objects_ = 0;
};

// Visits every record; kind protocol when the bytes break the format.
sys::Status read_object_stream(
    sys::ByteSpan bytes,
    const std::function<sys::Status(ObjectKind kind, const sys::Digest& digest, sys::ByteSpan bytes)>& visit);

}  // namespace turnbox::control
