// One tree of a turn, as its objects say: every entry with its attributes, contents by digest, nothing held
// in memory but what is being looked at.
//
// Reads objects through a Fetch, so that it works on the store and on what a live sandbox handed over. Every
// object is hashed again when it is read; content and meta must agree, or the visit ends with kind invalid.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "broker/store/store.h"
#include "broker/turn/draft.h"

namespace turnbox::turn {

// An object's kind and bytes; `scratch` may hold them.
using Fetch =
    std::function<sys::Result<store::Reader::Found>(const sys::Digest& digest, sys::Bytes& scratch)>;
// The account's objects. The reader outlives it.
Fetch fetch_from(const store::Reader& reader, std::string account);

struct TreeEntry {
  std::string path;  // raw bytes, relative; empty for the root
  char type = 'f';   // f d l c b p s
  sys::Digest digest;
  uint32_t mode = 0;  // 07777; of the root too
  uint64_t ino = 0;   // entries with one number are one file
  uint32_t uid = 0, gid = 0, nlink = 0;
  int64_t mtime_sec = 0;
  uint32_t mtime_nsec = 0;
  std::vector<std::pair<std::string, std::string>> xattrs;  // sorted by name
};

struct DirEntry {
  std::string name;
  char type = 'f';
  uint32_t mode = 0;
  sys::Digest digest;
};

class StoredTree {
 public:
  StoredTree(Fetch fetch, TreeRef tree) : fetch_(std::move(fetch)), tree_(tree) {}

  const TreeRef& ref() const { return tree_; }

  // Every entry, the root first, then depth first with names in byte order.
  sys::Status visit(const std::function<sys::Status(const TreeEntry&)>& visit) const;

  // Without the meta: the entry at `path`, by descending; empty when there is none. The root has mode 0.
  sys::Result<std::optional<DirEntry>> find(std::string_view path) const;
  sys::Result<std::vector<DirEntry>> list(const sys::Digest& dir) const;

  // A file's bytes, in pieces of a chunk (65,536 bytes) but the last.
  sys::Status content(const sys::Digest& file, const std::function<sys::Status(sys::ByteSpan)>& sink) const;
  sys::Result<uint64_t> size(const sys::Digest& file) const;
  sys::Result<std::string> target(const sys::Digest& symlink) const;
  struct Device {
    uint32_t major = 0, minor = 0;
  };
  sys::Result<Device> device(const sys::Digest& node) const;

 private:
  Fetch fetch_;
  TreeRef tree_;
};

// What differs between two trees, by digests: equal subtrees are not looked into. Paths are sorted as bytes
// within each directory, depth first.
struct TreeChange {
  char change = '~';  // + ~ -
  char type = 'f';    // of what is there after, or of what was removed
  std::string path;
  std::optional<uint32_t> old_mode, new_mode;  // where the mode changed
  bool content = false;                        // what is in it changed, or its type
};
sys::Status diff_trees(const StoredTree& from, const StoredTree& to,
                       const std::function<sys::Status(const TreeChange&)>& visit);

}  // namespace turnbox::turn
