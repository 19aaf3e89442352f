#include "broker/demand/apply.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

#include "broker/demand/apply_plan.h"
#include "broker/demand/beneath.h"
#include "broker/demand/materialise.h"

namespace turnbox::demand {
namespace {

using sys::ErrorKind;
using sys::Status;
using turn::TreeEntry;

constexpr size_t kNamed = 8;  // conflicts that one sentence names

// Looks at everything that would be touched, and collects what is not as it was.
class Checker {
 public:
  Checker(const Beneath& host, const HostStamps& imported, const ApplyPlan& plan)
      : host_(host), imported_(imported), plan_(plan) {}

  Status run() {
    for (const std::string& path : plan_.put) check_put(path);
    for (const std::string& path : plan_.touch) check_same(path);
    for (const std::string& path : plan_.remove) check_tree(path);
    if (wrong_.empty()) return {};
    std::string text = "nothing was applied, since this changed on the host meanwhile: ";
    for (size_t i = 0; i < wrong_.size() && i < kNamed; ++i)
      text += (i > 0 ? ", " : "") + host_.shown(wrong_[i]);
    if (wrong_.size() > kNamed) text += " and " + std::to_string(wrong_.size() - kNamed) + " more";
    return sys::fail(ErrorKind::conflict, text);
  }

 private:
  void wrong(const std::string& path) {
    if (std::find(wrong_.begin(), wrong_.end(), path) == wrong_.end()) wrong_.push_back(path);
  }

  // Every directory on the way must be the one that was imported.
  bool check_parents(const std::string& path) {
    for (size_t slash = path.find('/'); slash != path.npos; slash = path.find('/', slash + 1)) {
      const std::string dir = path.substr(0, slash);
      if (imported_.contains(dir) && !same(dir)) {
        wrong(dir);
        return false;
      }
    }
    return true;
  }

  bool same(const std::string& path) const {
    const auto stamp = imported_.find(path);
    const auto now = host_.look(path);
    return stamp != imported_.end() && now && HostStamp::of(*now).same_as(stamp->second);
  }

  void check_same(const std::string& path) {
    if (check_parents(path) && !same(path)) wrong(path);
  }

  void check_put(const std::string& path) {
    if (plan_.before.contains(path)) return check_tree(path);
    if (!check_parents(path)) return;
    if (host_.look(path) || errno != ENOENT) wrong(path);
  }

  // A directory that goes must hold nothing but what was imported.
  void check_tree(const std::string& path) {
    check_same(path);
    const auto entry = plan_.before.find(path);
    if (entry == plan_.before.end() || entry->second.type != 'd') return;
    const auto dir = host_.directory(path);
    const auto names = dir ? names_in(dir->get()) : std::nullopt;
    if (!names) return wrong(path);
    for (const std::string& name : *names) {
      const std::string below = path + "/" + name;
      if (!imported_.contains(below)) {
        wrong(below);
      } else {
        check_tree(below);
      }
    }
  }

  const Beneath& host_;
  const HostStamps& imported_;
  const ApplyPlan& plan_;
  std::vector<std::string> wrong_;
};

class Applier {
 public:
  Applier(const Beneath& host, const turn::StoredTree& after, const ApplyPlan& plan)
      : host_(host), after_(after), plan_(plan) {}
  ~Applier() {
    for (const Staged& staged : staged_) {
      if (staged.placed) continue;
      if (const auto parent = host_.directory(parent_of(staged.path)))
        (void)remove_tree(parent->get(), staged.name);
    }
  }
  Applier(const Applier&) = delete;
  Applier& operator=(const Applier&) = delete;

  // Beside its place, with everything below. Nothing that stands there is touched.
  Status stage() {
    for (const std::string& path : plan_.put) {
      const std::string dir = parent_of(path);
      const auto parent = host_.directory(dir);
      if (!parent) return sys::fail_errno("nothing was applied: cannot write to " + host_.shown(dir));
      staged_.push_back(
          {path, ".turnbox-apply-" + std::to_string(::getpid()) + "-" + std::to_string(staged_.size())});
      const std::string& name = staged_.back().name;
      const Status made = build(path, parent->get(), dir.empty() ? name : dir + "/" + name);
      if (!made) return sys::context("nothing was applied", made.error());
    }
    return {};
  }

  Status place() {
    for (Staged& staged : staged_) TRY(place(staged));
    for (const std::string& path : plan_.remove) TRY(remove(path));
    // Entries that came and went moved the times of their directories: those are set last, the deepest first.
    for (auto path = plan_.touch.rbegin(); path != plan_.touch.rend(); ++path) TRY(touch(*path));
    return {};
  }

  size_t done() const { return done_; }

 private:
  struct Staged {
    std::string path;
    std::string name;  // beside it
    bool placed = false;
  };

  MadeAs made_as(const TreeEntry& entry,
                 const std::vector<std::pair<std::string, std::string>>& xattrs) const {
    return {.mode = applied_mode(entry),
            .owners = ::geteuid() == 0 ? Owners::keep : Owners::caller,
            .xattrs = &xattrs};
  }

  // `at`: where it is made, relative to the host's directory; its last part is made in `directory`.
  Status build(const std::string& path, int directory, const std::string& at) {
    const TreeEntry& entry = plan_.after.at(path);
    const auto xattrs = applied_xattrs(entry);
    const std::string name = last_of(at);
    if (entry.type != 'd') {
      TRY_ASSIGN(const bool linked, link_to_first(entry, directory, at));
      if (linked) return {};
      return make_entry(after_, entry, directory, name, made_as(entry, xattrs));
    }
    TRY(make_entry(after_, entry, directory, name, made_as(entry, xattrs)));
    const sys::Fd inside(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!inside) return sys::fail_errno("cannot fill '" + path + "'");
    const std::string prefix = path + "/";
    for (auto below = plan_.after.lower_bound(prefix);
         below != plan_.after.end() && below->first.starts_with(prefix); ++below) {
      if (below->first.find('/', prefix.size()) != std::string::npos) continue;
      TRY(build(below->first, inside.get(), at + "/" + below->first.substr(prefix.size())));
    }
    return finish_entry(entry, directory, name, made_as(entry, xattrs));
  }

  // The second and later names of one file are links to the first that was staged.
  sys::Result<bool> link_to_first(const TreeEntry& entry, int directory, const std::string& at) {
    if (!plan_.links.contains(entry.ino)) return false;
    const auto [first, added] = first_.try_emplace(entry.ino, at);
    if (added) return false;
    const auto from = host_.directory(parent_of(first->second));
    if (!from ||
        ::linkat(from->get(), last_of(first->second).c_str(), directory, last_of(at).c_str(), 0) < 0) {
      return sys::fail_errno("cannot link '" + entry.path + "'");
    }
    return true;
  }

  tl::unexpected<sys::Error> broke_off(const std::string& path) const {
    return sys::fail_errno("applying broke off after " + std::to_string(done_) + " changes, at " +
                           host_.shown(path));
  }

  Status place(Staged& staged) {
    const std::string name = last_of(staged.path);
    const auto old = plan_.before.find(staged.path);
    const bool was_dir = old != plan_.before.end() && old->second.type == 'd';
    const bool is_dir = plan_.after.at(staged.path).type == 'd';
    const auto there = host_.directory(parent_of(staged.path));
    if (!there) return broke_off(staged.path);
    const int parent = there->get();
    if (old == plan_.before.end()) {
      if (::renameat2(parent, staged.name.c_str(), parent, name.c_str(), RENAME_NOREPLACE) < 0)
        return broke_off(staged.path);
    } else if (was_dir || is_dir) {
      // One is a directory, the other is not: they change places, and the old one goes under the staged name.
      if (::renameat2(parent, staged.name.c_str(), parent, name.c_str(), RENAME_EXCHANGE) < 0 ||
          !remove_tree(parent, staged.name)) {
        return broke_off(staged.path);
      }
    } else if (::renameat(parent, staged.name.c_str(), parent, name.c_str()) < 0) {
      return broke_off(staged.path);
    }
    staged.placed = true;
    ++done_;
    return {};
  }

  // What was imported, and nothing else, the deepest first.
  Status remove(const std::string& path) {
    std::vector<const TreeEntry*> entries{&plan_.before.at(path)};
    const std::string prefix = path + "/";
    for (auto below = plan_.before.lower_bound(prefix);
         below != plan_.before.end() && below->first.starts_with(prefix); ++below) {
      entries.push_back(&below->second);
    }
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
      const std::string& at = (*entry)->path;
      const auto parent = host_.directory(parent_of(at));
      if (!parent ||
          ::unlinkat(parent->get(), last_of(at).c_str(), (*entry)->type == 'd' ? AT_REMOVEDIR : 0) < 0)
        return broke_off(at);
    }
    ++done_;
    return {};
  }

  Status touch(const std::string& path) {
    const TreeEntry& entry = plan_.after.at(path);
    const auto xattrs = applied_xattrs(entry);
    const auto parent = host_.directory(parent_of(path));
    if (!parent) return broke_off(path);
    TRY(finish_entry(entry, parent->get(), path.empty() ? "." : last_of(path), made_as(entry, xattrs)));
    ++done_;
    return {};
  }

  const Beneath& host_;
  const turn::StoredTree& after_;
  const ApplyPlan& plan_;
  std::vector<Staged> staged_;
  std::map<uint64_t, std::string> first_;  // where the first name of a file was staged
  size_t done_ = 0;
};

Status check_writable(const Beneath& host) {
  struct statvfs fs;
  const bool read_only = ::fstatvfs(host.root(), &fs) == 0 && (fs.f_flag & ST_RDONLY) != 0;
  if (!read_only && ::faccessat(host.root(), ".", W_OK | X_OK, AT_EACCESS) == 0) return {};
  return sys::fail(ErrorKind::unavailable, "nothing was applied: " + host.name() + " cannot be written to");
}

}  // namespace

sys::Result<Applied> apply_changes(const std::string& directory, const HostStamps& imported,
                                   const turn::StoredTree& before, const turn::StoredTree& after) {
  auto plan = plan_changes(before, after);
  if (!plan) return tl::make_unexpected(std::move(plan).error());
  const Applied applied{plan->added, plan->changed, plan->removed, plan->notes};
  if (plan->put.empty() && plan->touch.empty() && plan->remove.empty()) return applied;
  TRY_ASSIGN(const Beneath host, Beneath::open(directory));
  TRY(check_writable(host));
  const auto root = imported.find("");
  const auto now = host.look("");
  if (root == imported.end() || !now || !HostStamp::of(*now).same_as(root->second)) {
    return sys::fail(ErrorKind::conflict, "nothing was applied: " + directory + " is another directory now");
  }
  TRY(Checker(host, imported, *plan).run());
  Applier applier(host, after, *plan);
  TRY(applier.stage());
  TRY(applier.place());
  return applied;
}

}  // namespace turnbox::demand
