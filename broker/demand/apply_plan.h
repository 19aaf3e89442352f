// What has to be done to a directory to turn one tree into another. Values only; private to apply.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "broker/demand/apply.h"

namespace turnbox::demand {

using TreeMap = std::map<std::string, turn::TreeEntry>;  // by path: parents come before what is below them

struct ApplyPlan {
  TreeMap before, after;
  std::vector<std::string> put;     // new or replaced, whole: of a directory everything below is new as well
  std::vector<std::string> touch;   // attributes only
  std::vector<std::string> remove;  // of a directory everything below goes as well
  std::map<uint64_t, std::vector<std::string>> links;  // of `after`: files with several names there
  uint64_t added = 0, changed = 0, removed = 0;
  std::vector<std::string> notes;
};

// Kind refused names a device or socket that would have to be made.
sys::Result<ApplyPlan> plan_changes(const turn::StoredTree& before, const turn::StoredTree& after);

// The attributes that are applied: `user.` only.
std::vector<std::pair<std::string, std::string>> applied_xattrs(const turn::TreeEntry& entry);
// Without set-user-id and set-group-id bits, except a directory's.
uint32_t applied_mode(const turn::TreeEntry& entry);

// Whether one of `dirs` stands above the path.
bool is_below_any(std::string_view path, const std::set<std::string, std::less<>>& dirs);

}  // namespace turnbox::demand
