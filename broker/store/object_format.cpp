#include "broker/store/object_format.h"

#include <array>
#include <limits>
#include <string>

namespace turnbox::store {

using sys::ByteSpan;
using sys::Digest;
using sys::ErrorKind;
using sys::Status;

namespace {

constexpr size_t kDigestBytes = 32;

Digest digest_at(ByteSpan bytes, size_t at) {
  Digest digest;
  std::memcpy(digest.bytes.data(), bytes.data() + at, kDigestBytes);
  return digest;
}

bool good_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

Status each_digest(ByteSpan digests, ObjectKind kind, bool or_chunk,
                   const std::function<Status(const Child&)>& visit) {
  for (size_t at = 0; at < digests.size(); at += kDigestBytes) {
    TRY(visit(Child{kind, or_chunk, digest_at(digests, at)}));
  }
  return {};
}

}  // namespace

std::string_view name_of(ObjectKind kind) {
  static constexpr std::array<std::string_view, 7> kNames{"",    "chunk",   "list", "file",
                                                          "dir", "symlink", "node"};
  TURNBOX_ASSERT(kind >= ObjectKind::chunk && kind <= ObjectKind::node);
  return kNames[static_cast<size_t>(kind)];
}

ObjectKind kind_of_row(char type) {
  switch (type) {
    case 'd':
      return ObjectKind::dir;
    case 'f':
      return ObjectKind::file;
    case 'l':
      return ObjectKind::symlink;
    default:
      return ObjectKind::node;
  }
}

uint64_t span_of(unsigned height) {
  uint64_t span = kChunkBytes;
  for (; height > 0; --height) {
    if (span > std::numeric_limits<uint64_t>::max() / kFanOut) return std::numeric_limits<uint64_t>::max();
    span *= kFanOut;
  }
  return span;
}

Status read_dir(ByteSpan bytes, const std::function<Status(const DirRow&)>& visit) {
  sys::ByteReader reader(bytes);
  std::string_view last;
  while (reader.remaining() > 0) {
    const auto type = reader.take_le<char>();
    const auto mode = reader.take_le<uint32_t>();
    const auto length = reader.take_le<uint16_t>();
    const auto name = length ? reader.take(*length) : std::nullopt;
    const auto digest = reader.take(kDigestBytes);
    if (!digest) return sys::fail(ErrorKind::invalid, "a directory object ends inside a row");
    const std::string_view text = sys::as_text(*name);
    if (std::string_view("fdlcbps").find(*type) == std::string_view::npos || *type == '\0' || *mode > 07777 ||
        !good_name(text) || text <= last) {
      return sys::fail(ErrorKind::invalid, "a directory object has a bad row");
    }
    TRY(visit(DirRow{*type, *mode, text, digest_at(*digest, 0)}));
    last = text;
  }
  return {};
}

sys::Result<FileHead> read_file_head(ByteSpan bytes) {
  sys::ByteReader reader(bytes);
  const auto size = reader.take_le<uint64_t>();
  if (!size) return sys::fail(ErrorKind::invalid, "a file object has no size");
  FileHead head{*size, 0, *reader.take(reader.remaining())};
  while (head.size / kFanOut > span_of(head.height) ||
         (head.size / kFanOut == span_of(head.height) && head.size % kFanOut != 0)) {
    ++head.height;
  }
  const uint64_t each = span_of(head.height);
  const uint64_t count = head.size / each + (head.size % each != 0 ? 1 : 0);
  if (head.digests.size() != count * kDigestBytes) {
    return sys::fail(ErrorKind::invalid, "a file object has not the digests that its size asks for");
  }
  return head;
}

Status for_each_child(ObjectKind kind, ByteSpan bytes, const std::function<Status(const Child&)>& visit) {
  switch (kind) {
    case ObjectKind::chunk:
      if (bytes.empty() || bytes.size() > kChunkBytes) {
        return sys::fail(ErrorKind::invalid, "a chunk is empty or too long");
      }
      return {};
    case ObjectKind::list:
      if (bytes.empty() || bytes.size() % kDigestBytes != 0 || bytes.size() > kFanOut * kDigestBytes) {
        return sys::fail(ErrorKind::invalid, "a list has not 1 to 1,024 digests");
      }
      return each_digest(bytes, ObjectKind::list, true, visit);
    case ObjectKind::file: {
      TRY_ASSIGN(const FileHead head, read_file_head(bytes));
      return each_digest(head.digests, head.height == 0 ? ObjectKind::chunk : ObjectKind::list, false, visit);
    }
    case ObjectKind::dir:
      return read_dir(bytes, [&](const DirRow& row) {
        return visit(Child{kind_of_row(row.type), false, row.digest});
      });
    case ObjectKind::symlink:
      if (bytes.empty() || bytes.size() > 4'095) {
        return sys::fail(ErrorKind::invalid, "a symlink's target is empty or too long");
      }
      return {};
    case ObjectKind::node:
      if (bytes.size() != 8) return sys::fail(ErrorKind::invalid, "a node is not 8 bytes long");
      return {};
  }
  return sys::fail(ErrorKind::invalid, "an object of unknown kind");
}

}  // namespace turnbox::store
