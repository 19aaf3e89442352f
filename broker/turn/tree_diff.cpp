// Two trees compared by digests, directory by directory. No recursion: a guest nests directories as deep as
// it likes.
#include <algorithm>

#include "broker/turn/stored_tree.h"

namespace turnbox::turn {

using sys::Status;

namespace {

// One name in either tree, or in both.
struct Pair {
  std::string path;
  std::optional<DirEntry> before, after;
};

class Differ {
 public:
  Differ(const StoredTree& from, const StoredTree& to, const std::function<Status(const TreeChange&)>& visit)
      : from_(from), to_(to), visit_(visit) {}

  Status run() {
    TRY(open({.path = "",
              .before = DirEntry{"", 'd', 0, from_.ref().content},
              .after = DirEntry{"", 'd', 0, to_.ref().content}}));
    while (!todo_.empty()) {
      const Pair next = std::move(todo_.back());
      todo_.pop_back();
      TRY(look_at(next));
    }
    return {};
  }

 private:
  // Puts what is in the directories of a pair on the stack, the first name on top.
  Status open(const Pair& pair) {
    std::vector<DirEntry> before, after;
    if (pair.before) {
      TRY_ASSIGN(before, from_.list(pair.before->digest));
    }
    if (pair.after) {
      TRY_ASSIGN(after, to_.list(pair.after->digest));
    }
    const size_t first = todo_.size();
    auto old_row = before.begin();
    auto new_row = after.begin();
    while (old_row != before.end() || new_row != after.end()) {
      const int order = old_row == before.end()  ? 1
                        : new_row == after.end() ? -1
                                                 : old_row->name.compare(new_row->name);
      const std::string& name = order <= 0 ? old_row->name : new_row->name;
      Pair next{.path = pair.path.empty() ? name : pair.path + "/" + name, .before = {}, .after = {}};
      if (order <= 0) next.before = *old_row++;
      if (order >= 0) next.after = *new_row++;
      todo_.push_back(std::move(next));
    }
    std::reverse(todo_.begin() + static_cast<ptrdiff_t>(first), todo_.end());
    return {};
  }

  Status look_at(const Pair& pair) {
    if (!pair.before || !pair.after) return one_side(pair);
    const DirEntry &before = *pair.before, &after = *pair.after;
    if (before.type != after.type && (before.type == 'd' || after.type == 'd')) {
      todo_.push_back({.path = pair.path, .before = {}, .after = after});
      return one_side({.path = pair.path, .before = before, .after = {}});
    }
    TreeChange change{.change = '~', .type = after.type, .path = pair.path, .old_mode = {}, .new_mode = {}};
    if (before.mode != after.mode) {
      change.old_mode = before.mode;
      change.new_mode = after.mode;
    }
    change.content = after.type != 'd' && (before.type != after.type || before.digest != after.digest);
    if (change.content || change.old_mode) TRY(visit_(change));
    return after.type == 'd' && before.digest != after.digest ? open(pair) : Status();
  }

  Status one_side(const Pair& pair) {
    const DirEntry& entry = pair.before ? *pair.before : *pair.after;
    TRY(visit_({.change = pair.before ? '-' : '+',
                .type = entry.type,
                .path = pair.path,
                .old_mode = {},
                .new_mode = {},
                .content = true}));
    return entry.type == 'd' ? open(pair) : Status();
  }

  const StoredTree& from_;
  const StoredTree& to_;
  const std::function<Status(const TreeChange&)>& visit_;
  std::vector<Pair> todo_;
};

}  // namespace

Status diff_trees(const StoredTree& from, const StoredTree& to,
                  const std::function<Status(const TreeChange&)>& visit) {
  if (from.ref().kind == to.ref().kind && from.ref().content == to.ref().content) return {};
  if (from.ref().kind != store::ObjectKind::dir || to.ref().kind != store::ObjectKind::dir) {
    return visit({.change = '~', .type = 'f', .path = "", .old_mode = {}, .new_mode = {}, .content = true});
  }
  return Differ(from, to, visit).run();
}

}  // namespace turnbox::turn
