#include "broker/demand/apply_plan.h"

#include <unistd.h>

namespace turnbox::demand {
namespace {

using turn::TreeEntry;

sys::Result<TreeMap> read_tree(const turn::StoredTree& tree) {
  TreeMap entries;
  TRY(tree.visit([&](const TreeEntry& entry) -> sys::Status {
    entries.emplace(entry.path, entry);
    return {};
  }));
  return entries;
}

std::map<uint64_t, std::vector<std::string>> links_of(const TreeMap& tree) {
  std::map<uint64_t, std::vector<std::string>> links;
  for (const auto& [path, entry] : tree) {
    if (entry.type != 'd' && entry.nlink > 1) links[entry.ino].push_back(path);
  }
  std::erase_if(links, [](const auto& group) { return group.second.size() < 2; });
  return links;
}

using Links = std::map<uint64_t, std::vector<std::string>>;

const std::vector<std::string>& names_of(const Links& links, const TreeEntry& entry) {
  static const std::vector<std::string> kAlone;
  const auto found = links.find(entry.ino);
  return found == links.end() ? kAlone : found->second;
}

bool same_attributes(const TreeEntry& a, const TreeEntry& b) {
  const bool owners = ::geteuid() != 0 || (a.uid == b.uid && a.gid == b.gid);
  return owners && applied_mode(a) == applied_mode(b) && a.mtime_sec == b.mtime_sec &&
         a.mtime_nsec == b.mtime_nsec && applied_xattrs(a) == applied_xattrs(b);
}

class Planner {
 public:
  explicit Planner(ApplyPlan& plan) : plan_(plan), old_links_(links_of(plan.before)) {}

  sys::Status run() {
    plan_.links = links_of(plan_.after);
    for (const auto& [path, entry] : plan_.after) TRY(look_at(path, entry));
    for (const auto& [path, entry] : plan_.before) look_for_removed(path);
    return {};
  }

 private:
  sys::Status put(const std::string& path, const TreeEntry& entry, bool is_new) {
    if (entry.type == 'c' || entry.type == 'b' || entry.type == 's') {
      return sys::fail(
          sys::ErrorKind::refused,
          "nothing was applied: '" + path + "' is a " + (entry.type == 's' ? "socket" : "device") +
              ", which is not made on the host; remove it in the command, or take the turn's files with "
              "`turnbox workspace export`");
    }
    ++(is_new ? plan_.added : plan_.changed);
    note(path, entry);
    if (is_below_any(path, whole_)) return {};
    plan_.put.push_back(path);
    if (entry.type == 'd') whole_.insert(path);
    return {};
  }

  void note(const std::string& path, const TreeEntry& entry) {
    if (applied_mode(entry) != entry.mode) {
      plan_.notes.push_back("'" + path + "' is without its set-user-id or set-group-id bit");
    }
    if (applied_xattrs(entry).size() != entry.xattrs.size()) {
      plan_.notes.push_back("'" + path + "' is without its security. and trusted. attributes");
    }
  }

  sys::Status look_at(const std::string& path, const TreeEntry& entry) {
    const auto found = plan_.before.find(path);
    if (found == plan_.before.end()) return put(path, entry, true);
    const TreeEntry& old = found->second;
    const bool other_type = old.type != entry.type;
    const bool other_content = entry.type != 'd' && old.digest != entry.digest;
    const bool other_names = entry.type != 'd' && names_of(plan_.links, entry) != names_of(old_links_, old);
    if (other_type || other_content || other_names) return put(path, entry, false);
    if (!same_attributes(old, entry)) {
      note(path, entry);
      plan_.touch.push_back(path);
      if (entry.type != 'd' || applied_mode(old) != applied_mode(entry)) ++plan_.changed;
    }
    return {};
  }

  void look_for_removed(const std::string& path) {
    if (plan_.after.contains(path)) return;
    ++plan_.removed;
    if (is_below_any(path, gone_)) return;
    gone_.insert(path);
    // What stands below something that is replaced goes with it.
    const auto parent = plan_.after.find(path.substr(0, std::min(path.rfind('/'), path.size())));
    const bool replaced =
        path.find('/') != path.npos && parent != plan_.after.end() && parent->second.type != 'd';
    if (!replaced) plan_.remove.push_back(path);
  }

  ApplyPlan& plan_;
  const Links old_links_;
  std::set<std::string, std::less<>> whole_;  // directories that are put whole
  std::set<std::string, std::less<>> gone_;   // what goes whole
};

}  // namespace

bool is_below_any(std::string_view path, const std::set<std::string, std::less<>>& dirs) {
  for (size_t slash = path.find('/'); slash != path.npos; slash = path.find('/', slash + 1)) {
    if (dirs.contains(path.substr(0, slash))) return true;
  }
  return false;
}

uint32_t applied_mode(const turn::TreeEntry& entry) {
  return entry.type == 'd' ? entry.mode : entry.mode & ~06000U;
}

std::vector<std::pair<std::string, std::string>> applied_xattrs(const turn::TreeEntry& entry) {
  std::vector<std::pair<std::string, std::string>> kept;
  for (const auto& xattr : entry.xattrs) {
    if (xattr.first.starts_with("user.")) kept.push_back(xattr);
  }
  return kept;
}

sys::Result<ApplyPlan> plan_changes(const turn::StoredTree& before, const turn::StoredTree& after) {
  ApplyPlan plan;
  TRY_ASSIGN(plan.before, read_tree(before));
  TRY_ASSIGN(plan.after, read_tree(after));
  TRY(Planner(plan).run());
  return plan;
}

}  // namespace turnbox::demand
