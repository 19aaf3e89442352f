// Reads stored objects and believes nothing: every object is hashed again when it is read. Shared by verify,
// export and browse. Private to broker/turn.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>

#include "broker/store/store.h"
#include "broker/turn/stored_tree.h"

namespace turnbox::turn {

// One entry of a tree.
struct Entry {
  std::string path;  // relative to the root; empty for the root
  char type;
  uint32_t mode;  // 0 for the root
  sys::Digest digest;
};

class ObjectWalk {
 public:
  ObjectWalk(const store::Reader& reader, std::string account)
      : fetch_(fetch_from(reader, std::move(account))) {}
  explicit ObjectWalk(Fetch fetch) : fetch_(std::move(fetch)) {}

  // The object's bytes after hashing; `scratch` may hold them. Errors name kind and digest.
  sys::Result<sys::ByteSpan> read(store::ObjectKind kind, const sys::Digest& digest, sys::Bytes& scratch);

  // As the store's index says, not checked.
  sys::Result<store::ObjectKind> kind_of(const sys::Digest& digest) const;

  // Depth first, names in byte order; the visitor returns false to stop. Directories are read after they were
  // visited.
  using Visit = std::function<sys::Result<bool>(const Entry&)>;
  sys::Status walk(char type, const sys::Digest& root, const Visit& visit);

  // Checks every object of one file against its size, each distinct subtree once. Returns the size.
  sys::Result<uint64_t> check_file(const sys::Digest& file);
  // A file's content in pieces, each at most a chunk.
  using Sink = std::function<sys::Status(sys::ByteSpan)>;
  sys::Status content(const sys::Digest& file, const Sink& sink);
  sys::Result<uint64_t> file_size(const sys::Digest& file);

  // Distinct objects read so far, and their bytes.
  const std::unordered_set<sys::Digest>& seen() const { return seen_; }
  uint64_t bytes() const { return bytes_; }

 private:
  sys::Status check_span(unsigned height, uint64_t size, const sys::Digest& digest);
  sys::Status check_row(unsigned height, uint64_t size, sys::ByteSpan digests);
  sys::Status stream(unsigned height, uint64_t size, sys::ByteSpan digests, const Sink& sink);

  Fetch fetch_;
  std::unordered_set<sys::Digest> seen_;
  std::set<std::tuple<unsigned, uint64_t, sys::Digest>> spans_;  // checked: height, size, digest
  uint64_t bytes_ = 0;
};

}  // namespace turnbox::turn
