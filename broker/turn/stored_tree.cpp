#include "broker/turn/stored_tree.h"

#include <algorithm>

#include "broker/turn/meta_reader.h"
#include "broker/turn/object_walk.h"

namespace turnbox::turn {

using store::ObjectKind;
using sys::ErrorKind;
using sys::Result;
using sys::Status;

namespace {

char type_of(ObjectKind kind) {
  return kind == ObjectKind::dir ? 'd' : 'f';
}

std::string joined(const std::string& dir, std::string_view name) {
  return dir.empty() ? std::string(name) : dir + "/" + std::string(name);
}

// The walk of the content, one entry at a time, as the meta's rows come.
class Cursor {
 public:
  Cursor(ObjectWalk& walk, const TreeRef& tree) : walk_(walk) {
    todo_.push_back({"", type_of(tree.kind), 0, tree.content});
  }

  Result<std::optional<Entry>> next() {
    if (todo_.empty()) return std::optional<Entry>();
    Entry entry = std::move(todo_.back());
    todo_.pop_back();
    if (entry.type != 'd') return std::optional(std::move(entry));
    TRY_ASSIGN(const sys::ByteSpan rows, walk_.read(ObjectKind::dir, entry.digest, scratch_));
    const size_t first = todo_.size();
    const auto add = [&](const store::DirRow& row) -> Status {
      todo_.push_back({joined(entry.path, row.name), row.type, row.mode, row.digest});
      return {};
    };
    TRY(store::read_dir(rows, add));
    std::reverse(todo_.begin() + static_cast<ptrdiff_t>(first), todo_.end());
    return std::optional(std::move(entry));
  }

 private:
  ObjectWalk& walk_;
  std::vector<Entry> todo_;
  sys::Bytes scratch_;
};

}  // namespace

Fetch fetch_from(const store::Reader& reader, std::string account) {
  return [&reader, account = std::move(account)](const sys::Digest& digest, sys::Bytes& scratch) {
    return reader.object(account, digest, scratch);
  };
}

Status StoredTree::visit(const std::function<Status(const TreeEntry&)>& visit) const {
  ObjectWalk contents(fetch_), meta(fetch_);
  Cursor cursor(contents, tree_);
  MetaReader rows([&](const MetaRow& row) -> Status {
    TRY_ASSIGN(const std::optional<Entry> entry, cursor.next());
    if (!entry || entry->path != row.path || (!row.path.empty() && entry->mode != row.mode)) {
      return sys::fail(ErrorKind::invalid,
                       "the meta of the tree does not fit its content at '" + row.path + "'");
    }
    return visit({.path = row.path,
                  .type = entry->type,
                  .digest = entry->digest,
                  .mode = row.mode,
                  .ino = row.ino,
                  .uid = row.uid,
                  .gid = row.gid,
                  .nlink = row.nlink,
                  .mtime_sec = row.mtime_sec,
                  .mtime_nsec = row.mtime_nsec,
                  .xattrs = row.xattrs});
  });
  TRY(meta.content(tree_.meta, [&](sys::ByteSpan bytes) { return rows.feed(bytes); }));
  TRY(rows.finish());
  TRY_ASSIGN(const std::optional<Entry> left, cursor.next());
  if (left) return sys::fail(ErrorKind::invalid, "the meta of the tree has no row for '" + left->path + "'");
  return {};
}

Result<std::optional<DirEntry>> StoredTree::find(std::string_view path) const {
  DirEntry at{"", type_of(tree_.kind), 0, tree_.content};
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), name.size() + 1));
    if (name.empty()) continue;
    if (at.type != 'd') return std::optional<DirEntry>();
    TRY_ASSIGN(const auto rows, list(at.digest));
    const auto found =
        std::find_if(rows.begin(), rows.end(), [&](const DirEntry& row) { return row.name == name; });
    if (found == rows.end()) return std::optional<DirEntry>();
    at = *found;
  }
  return std::optional(std::move(at));
}

Result<std::vector<DirEntry>> StoredTree::list(const sys::Digest& dir) const {
  ObjectWalk walk(fetch_);
  sys::Bytes scratch;
  TRY_ASSIGN(const sys::ByteSpan rows, walk.read(ObjectKind::dir, dir, scratch));
  std::vector<DirEntry> entries;
  TRY(store::read_dir(rows, [&](const store::DirRow& row) -> Status {
    entries.push_back({std::string(row.name), row.type, row.mode, row.digest});
    return {};
  }));
  return entries;
}

Status StoredTree::content(const sys::Digest& file, const std::function<Status(sys::ByteSpan)>& sink) const {
  return ObjectWalk(fetch_).content(file, sink);
}

Result<uint64_t> StoredTree::size(const sys::Digest& file) const {
  return ObjectWalk(fetch_).file_size(file);
}

Result<std::string> StoredTree::target(const sys::Digest& symlink) const {
  ObjectWalk walk(fetch_);
  sys::Bytes scratch;
  TRY_ASSIGN(const sys::ByteSpan bytes, walk.read(ObjectKind::symlink, symlink, scratch));
  return std::string(sys::as_text(bytes));
}

Result<StoredTree::Device> StoredTree::device(const sys::Digest& node) const {
  ObjectWalk walk(fetch_);
  sys::Bytes scratch;
  TRY_ASSIGN(const sys::ByteSpan bytes, walk.read(ObjectKind::node, node, scratch));
  sys::ByteReader reader(bytes);
  const auto major = reader.take_le<uint32_t>();
  const auto minor = reader.take_le<uint32_t>();
  if (!major || !minor) return sys::fail(ErrorKind::invalid, "node " + sys::to_hex(node) + " is cut");
  return Device{*major, *minor};
}

}  // namespace turnbox::turn
