#include "broker/turn/object_walk.h"

#include <algorithm>

#include "broker/store/object_format.h"

namespace turnbox::turn {

using store::ObjectKind;
using sys::Bytes;
using sys::ByteSpan;
using sys::Digest;
using sys::ErrorKind;
using sys::Result;
using sys::Status;

namespace {

constexpr size_t kDigestBytes = 32;

Digest digest_at(ByteSpan digests, size_t index) {
  Digest digest;
  const ByteSpan raw = digests.subspan(index * kDigestBytes, kDigestBytes);
  std::copy(raw.begin(), raw.end(), digest.bytes.begin());
  return digest;
}

}  // namespace

Result<ByteSpan> ObjectWalk::read(ObjectKind kind, const Digest& digest, Bytes& scratch) {
  const auto what = [&] { return std::string(store::name_of(kind)) + " " + sys::to_hex(digest); };
  auto found = fetch_(digest, scratch);
  if (!found) {
    if (found.error().kind == ErrorKind::not_found)
      return sys::fail(ErrorKind::invalid, what() + " is missing");
    return sys::context(what(), std::move(found).error());
  }
  if (found->kind != kind) {
    return sys::fail(ErrorKind::invalid,
                     what() + " is stored as a " + std::string(store::name_of(found->kind)));
  }
  if (!seen_.contains(digest)) {
    if (sys::digest_of(store::name_of(kind), found->bytes) != digest) {
      return sys::fail(ErrorKind::invalid, what() + " has other bytes");
    }
    const auto form = store::for_each_child(kind, found->bytes, [](const store::Child&) { return Status(); });
    if (!form) return sys::context(what(), form.error());
    seen_.insert(digest);
    bytes_ += found->bytes.size();
  }
  return found->bytes;
}

Result<ObjectKind> ObjectWalk::kind_of(const Digest& digest) const {
  Bytes scratch;
  TRY_ASSIGN(const auto found, fetch_(digest, scratch));
  return found.kind;
}

Status ObjectWalk::walk(char type, const Digest& root, const Visit& visit) {
  std::vector<Entry> todo{{"", type, 0, root}};
  Bytes scratch;
  while (!todo.empty()) {
    const Entry entry = std::move(todo.back());
    todo.pop_back();
    TRY_ASSIGN(const bool more, visit(entry));
    if (!more) return {};
    if (entry.type != 'd') continue;
    TRY_ASSIGN(const ByteSpan rows, read(ObjectKind::dir, entry.digest, scratch));
    const size_t first = todo.size();
    const auto add = [&](const store::DirRow& row) -> Status {
      std::string path = entry.path.empty() ? std::string() : entry.path + "/";
      todo.push_back({path.append(row.name), row.type, row.mode, row.digest});
      return {};
    };
    TRY(store::read_dir(rows, add));
    std::reverse(todo.begin() + static_cast<ptrdiff_t>(first), todo.end());
  }
  return {};
}

Result<uint64_t> ObjectWalk::file_size(const Digest& file) {
  Bytes scratch;
  TRY_ASSIGN(const ByteSpan bytes, read(ObjectKind::file, file, scratch));
  TRY_ASSIGN(const store::FileHead head, store::read_file_head(bytes));
  return head.size;
}

Result<uint64_t> ObjectWalk::check_file(const Digest& file) {
  Bytes scratch;
  TRY_ASSIGN(const ByteSpan bytes, read(ObjectKind::file, file, scratch));
  TRY_ASSIGN(const store::FileHead head, store::read_file_head(bytes));
  TRY(check_row(head.height, head.size, head.digests));
  return head.size;
}

// `digests` stand for `size` bytes, each for span_of(height) of them but the last.
Status ObjectWalk::check_row(unsigned height, uint64_t size, ByteSpan digests) {
  const uint64_t each = store::span_of(height);
  const uint64_t count = size / each + (size % each != 0 ? 1 : 0);
  if (digests.size() != count * kDigestBytes) {
    return sys::fail(ErrorKind::invalid, "a list has not the digests that the file's size asks for");
  }
  for (size_t i = 0; i < count; ++i)
    TRY(check_span(height, std::min(each, size - i * each), digest_at(digests, i)));
  return {};
}

Status ObjectWalk::check_span(unsigned height, uint64_t size, const Digest& digest) {
  if (spans_.contains({height, size, digest})) return {};
  Bytes scratch;
  TRY_ASSIGN(const ByteSpan bytes, read(height == 0 ? ObjectKind::chunk : ObjectKind::list, digest, scratch));
  if (height > 0) {
    TRY(check_row(height - 1, size, bytes));
  } else if (bytes.size() != size) {
    return sys::fail(ErrorKind::invalid,
                     "chunk " + sys::to_hex(digest) + " has the wrong length for its place");
  }
  spans_.insert({height, size, digest});
  return {};
}

Status ObjectWalk::content(const Digest& file, const Sink& sink) {
  Bytes scratch;
  TRY_ASSIGN(const ByteSpan bytes, read(ObjectKind::file, file, scratch));
  TRY_ASSIGN(const store::FileHead head, store::read_file_head(bytes));
  return stream(head.height, head.size, head.digests, sink);
}

Status ObjectWalk::stream(unsigned height, uint64_t size, ByteSpan digests, const Sink& sink) {
  const uint64_t each = store::span_of(height);
  Bytes scratch;
  for (size_t i = 0; i * kDigestBytes < digests.size(); ++i) {
    const uint64_t part = std::min(each, size - i * each);
    const Digest digest = digest_at(digests, i);
    TRY_ASSIGN(const ByteSpan bytes,
               read(height == 0 ? ObjectKind::chunk : ObjectKind::list, digest, scratch));
    if (height == 0) {
      if (bytes.size() != part)
        return sys::fail(ErrorKind::invalid, "a chunk has the wrong length for its place");
      TRY(sink(bytes));
      continue;
    }
    const uint64_t below = store::span_of(height - 1);
    if (bytes.size() != (part / below + (part % below != 0 ? 1 : 0)) * kDigestBytes) {
      return sys::fail(ErrorKind::invalid, "a list has not the digests that the file's size asks for");
    }
    TRY(stream(height - 1, part, bytes, sink));
  }
  return {};
}

}  // namespace turnbox::turn
