#include "broker/store/object_source.h"

#include <sys/mman.h>

#include <algorithm>
#include <limits>

namespace turnbox::store {

using sys::ByteSpan;
using sys::ErrorKind;
using sys::Result;
using sys::Status;

namespace {

constexpr size_t kStreamHead = 40;                    // kind, zeros, length, digest
constexpr size_t kMostStreamBytes = size_t{4} << 30;  // of one memfd: a directory of millions may pass 64 MiB

}  // namespace

Status StreamSource::rewind() {
  rest_ = {};
  mapping_ = {};
  memfd_.reset();
  restart_ = true;
  return {};
}

Result<std::optional<Object>> StreamSource::next() {
  while (rest_.empty()) {
    mapping_ = {};
    memfd_.reset();
    TRY_ASSIGN(std::optional<sys::Fd> fetched, fetch_(std::exchange(restart_, false)));
    if (!fetched) return std::optional<Object>();
    memfd_ = std::move(*fetched);
    TRY_ASSIGN(mapping_, sys::map_sealed(memfd_.get(), kMostStreamBytes));
    rest_ = mapping_.bytes();
  }
  sys::ByteReader reader(rest_);
  const auto kind = reader.take_le<uint8_t>();
  const auto zeros = reader.take(3);
  const auto length = reader.take_le<uint32_t>();
  const auto digest = reader.take(32);
  const auto bytes = length ? reader.take(*length) : std::nullopt;
  if (!digest || !bytes || *kind < 1 || *kind > 6 ||
      std::any_of(zeros->begin(), zeros->end(), [](std::byte b) { return b != std::byte{0}; })) {
    return sys::fail(ErrorKind::protocol, "an object stream is cut or malformed");
  }
  rest_ = rest_.subspan(kStreamHead + *length);
  Object object{static_cast<ObjectKind>(*kind), {}, *bytes};
  std::copy(digest->begin(), digest->end(), object.digest.bytes.begin());
  return object;
}

Status JoinedSource::rewind() {
  at_ = 0;
  for (ObjectSource* part : parts_) TRY(part->rewind());
  return {};
}

Result<std::optional<Object>> JoinedSource::next() {
  for (; at_ < parts_.size(); ++at_) {
    TRY_ASSIGN(std::optional<Object> object, parts_[at_]->next());
    if (object) return object;
  }
  return std::optional<Object>();
}

FileSource::FileSource(ByteSpan content) : content_(content) {
  sys::Bytes row;
  for (size_t at = 0; at < content.size(); at += kChunkBytes) {
    const size_t size = std::min<size_t>(kChunkBytes, content.size() - at);
    made_.push_back({ObjectKind::chunk, sys::digest_of("chunk", content.subspan(at, size)), {}, at, size});
    sys::append(row, made_.back().digest.bytes);
  }
  constexpr size_t kRowBytes = kFanOut * 32;
  while (row.size() > kRowBytes) {
    sys::Bytes above;
    for (size_t at = 0; at < row.size(); at += kRowBytes) {
      const ByteSpan part = ByteSpan(row).subspan(at, std::min(kRowBytes, row.size() - at));
      made_.push_back({ObjectKind::list, sys::digest_of("list", part), {part.begin(), part.end()}, 0, 0});
      sys::append(above, made_.back().digest.bytes);
    }
    row = std::move(above);
  }
  sys::Bytes file;
  sys::append_le<uint64_t>(file, content.size());
  sys::append(file, row);
  digest_ = sys::digest_of("file", file);
  made_.push_back({ObjectKind::file, digest_, std::move(file), 0, 0});
}

Status FileSource::rewind() {
  at_ = 0;
  return {};
}

Result<std::optional<Object>> FileSource::next() {
  if (at_ == made_.size()) return std::optional<Object>();
  const Made& made = made_[at_++];
  const ByteSpan bytes = made.kind == ObjectKind::chunk ? content_.subspan(static_cast<size_t>(made.offset),
                                                                           static_cast<size_t>(made.size))
                                                        : ByteSpan(made.bytes);
  return Object{made.kind, made.digest, bytes};
}

}  // namespace turnbox::store
