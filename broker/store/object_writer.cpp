#include "broker/store/object_writer.h"

#include <algorithm>
#include <limits>

namespace turnbox::store {

using sys::ErrorKind;
using sys::Result;
using sys::Status;

ObjectWriter::ObjectWriter(Txn& txn, AccountNumber account, uint64_t next_segment)
    : txn_(txn), account_(account), segment_(next_segment) {
  buffer_.reserve(kSegmentBytes);
}

Result<bool> ObjectWriter::has(ObjectKind kind, const sys::Digest& digest) const {
  TRY_ASSIGN(const auto value, txn_.get(Db::objects, account_key(account_, digest.bytes)));
  if (!value) return false;
  TRY_ASSIGN(const ObjectPlace place, read_place(*value));
  return place.kind == kind;
}

Status ObjectWriter::check_children(const Object& object) const {
  return for_each_child(object.kind, object.bytes, [&](const Child& child) -> Status {
    TRY_ASSIGN(bool there, has(child.kind, child.digest));
    if (!there && child.or_chunk) {
      TRY_ASSIGN(there, has(ObjectKind::chunk, child.digest));
    }
    if (there) return {};
    return sys::fail(ErrorKind::invalid, "it names " + std::string(name_of(child.kind)) + " " +
                                             sys::to_hex(child.digest) +
                                             ", which this account does not have");
  });
}

Status ObjectWriter::put(const Object& object) {
  const auto what = [&] { return std::string(name_of(object.kind)) + " " + sys::to_hex(object.digest); };
  if (object.bytes.size() > std::numeric_limits<uint32_t>::max()) {
    return sys::fail(ErrorKind::limit, what() + " is larger than 4 GiB");
  }
  if (sys::digest_of(name_of(object.kind), object.bytes) != object.digest) {
    return sys::fail(ErrorKind::invalid, what() + " came with bytes that have another digest");
  }
  TRY_ASSIGN(const bool known, has(object.kind, object.digest));
  if (known) return {};
  if (auto fine = check_children(object); !fine) return sys::context(what(), std::move(fine).error());
  const ObjectPlace place{object.kind, static_cast<uint32_t>(object.bytes.size()), segment_,
                          static_cast<uint32_t>(buffer_.size())};
  TRY(append(object.bytes));
  return txn_.put(Db::objects, account_key(account_, object.digest.bytes), write_place(place));
}

Status ObjectWriter::append(sys::ByteSpan bytes) {
  while (!bytes.empty()) {
    const size_t part = std::min(bytes.size(), kSegmentBytes - buffer_.size());
    sys::append(buffer_, bytes.first(part));
    bytes = bytes.subspan(part);
    if (buffer_.size() == kSegmentBytes) TRY(flush());
  }
  return {};
}

Status ObjectWriter::flush() {
  TRY(txn_.put(Db::segments, segment_key(account_, segment_), buffer_));
  ++segment_;
  buffer_.clear();
  return {};
}

Status ObjectWriter::finish() {
  return buffer_.empty() ? Status() : flush();
}

}  // namespace turnbox::store
