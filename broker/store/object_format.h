// The six kinds of object, and what each says about the objects below it (docs/RECORD.md, «Objects»).
//
// Knows bytes only: no store, no digest is computed here. Every reader of a stored or received object goes
// through these functions, which refuse whatever the format does not allow (kind invalid).
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "vmm/sys/bytes.h"
#include "vmm/sys/digest.h"
#include "vmm/sys/result.h"

namespace turnbox::store {

// Numbers as in the object stream (docs/WIRE.md) and in the store's index; never reused.
enum class ObjectKind : uint8_t { chunk = 1, list = 2, file = 3, dir = 4, symlink = 5, node = 6 };

inline constexpr uint64_t kChunkBytes = 65'536;
inline constexpr uint64_t kFanOut = 1'024;  // digests in a list, and in a file

std::string_view name_of(ObjectKind kind);  // the digest kind: "chunk", "list", …

// One row of a directory.
struct DirRow {
  char type;  // f d l c b p s
  uint32_t mode;
  std::string_view name;  // any bytes
  sys::Digest digest;
};
ObjectKind kind_of_row(char type);

// Calls `visit` for every row, in order.
sys::Status read_dir(sys::ByteSpan bytes, const std::function<sys::Status(const DirRow&)>& visit);

// A file object: its size, and the digests below it with the height of the tree: 0 (they are chunks), 1
// (lists of chunks), 2 (lists of lists), …
struct FileHead {
  uint64_t size;
  unsigned height;
  sys::ByteSpan digests;  // 32 bytes each
};
sys::Result<FileHead> read_file_head(sys::ByteSpan bytes);

// Content bytes below one digest of a file or list whose digests stand `height` levels above the chunks:
// 65,536 for height 0, ×1,024 a level; saturates at UINT64_MAX.
uint64_t span_of(unsigned height);

// Calls `visit` for every object that `bytes` names directly; refuses bytes that are no object of that kind.
// A list does not know whether it names chunks or lists: then `kind` is `list` and either is right.
struct Child {
  ObjectKind kind;
  bool or_chunk;  // only below a list
  sys::Digest digest;
};
sys::Status for_each_child(ObjectKind kind, sys::ByteSpan bytes,
                           const std::function<sys::Status(const Child&)>& visit);

}  // namespace turnbox::store
