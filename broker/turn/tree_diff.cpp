// Two trees compared by digests, directory by directory.
#include "broker/turn/stored_tree.h"

namespace turnbox::turn {

using sys::Result;
using sys::Status;

namespace {

class Differ {
 public:
  Differ(const StoredTree& from, const StoredTree& to, const std::function<Status(const TreeChange&)>& visit)
      : from_(from), to_(to), visit_(visit) {}

  Status directories(const std::string& path, const sys::Digest& old_dir, const sys::Digest& new_dir) {
    if (old_dir == new_dir) return {};
    TRY_ASSIGN(const auto before, from_.list(old_dir));
    TRY_ASSIGN(const auto after, to_.list(new_dir));
    auto old_row = before.begin();
    auto new_row = after.begin();
    while (old_row != before.end() || new_row != after.end()) {
      const int order = old_row == before.end()  ? 1
                        : new_row == after.end() ? -1
                                                 : old_row->name.compare(new_row->name);
      if (order < 0) {
        TRY(whole('-', from_, path, *old_row++));
      } else if (order > 0) {
        TRY(whole('+', to_, path, *new_row++));
      } else {
        TRY(pair(path, *old_row++, *new_row++));
      }
    }
    return {};
  }

 private:
  static std::string below(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "/" + name;
  }

  Status whole(char change, const StoredTree& tree, const std::string& path, const DirEntry& row) {
    const std::string at = below(path, row.name);
    TRY(visit_(
        {.change = change, .type = row.type, .path = at, .old_mode = {}, .new_mode = {}, .content = true}));
    if (row.type != 'd') return {};
    TRY_ASSIGN(const auto rows, tree.list(row.digest));
    for (const DirEntry& entry : rows) TRY(whole(change, tree, at, entry));
    return {};
  }

  Status pair(const std::string& path, const DirEntry& before, const DirEntry& after) {
    if (before.type != after.type && (before.type == 'd' || after.type == 'd')) {
      TRY(whole('-', from_, path, before));
      return whole('+', to_, path, after);
    }
    TreeChange change{
        .change = '~', .type = after.type, .path = below(path, after.name), .old_mode = {}, .new_mode = {}};
    if (before.mode != after.mode) {
      change.old_mode = before.mode;
      change.new_mode = after.mode;
    }
    change.content = after.type != 'd' && (before.type != after.type || before.digest != after.digest);
    if (change.content || change.old_mode) TRY(visit_(change));
    if (after.type == 'd') return directories(change.path, before.digest, after.digest);
    return {};
  }

  const StoredTree& from_;
  const StoredTree& to_;
  const std::function<Status(const TreeChange&)>& visit_;
};

}  // namespace

Status diff_trees(const StoredTree& from, const StoredTree& to,
                  const std::function<Status(const TreeChange&)>& visit) {
  if (from.ref().kind == to.ref().kind && from.ref().content == to.ref().content) return {};
  if (from.ref().kind != store::ObjectKind::dir || to.ref().kind != store::ObjectKind::dir) {
    return visit({.change = '~', .type = 'f', .path = "", .old_mode = {}, .new_mode = {}, .content = true});
  }
  return Differ(from, to, visit).directories("", from.ref().content, to.ref().content);
}

}  // namespace turnbox::turn
