#include "broker/demand/version_export.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <unordered_map>

#include "broker/demand/beneath.h"
#include "broker/demand/materialise.h"

namespace turnbox::demand {
namespace {

using sys::ErrorKind;
using sys::Status;
using turn::TreeEntry;

// Fills a fresh directory with a whole tree.
class Builder {
 public:
  Builder(const turn::StoredTree& tree, const Beneath& into)
      : tree_(tree), into_(into), owners_(::geteuid() == 0 ? Owners::keep : Owners::caller) {}

  Status run() {
    TRY(tree_.visit([this](const TreeEntry& entry) { return put(entry); }));
    for (auto dir = directories_.rbegin(); dir != directories_.rend(); ++dir) {
      const auto kept = xattrs_of(*dir);
      TRY(parent(parent_of(dir->path)));
      TRY(finish_entry(*dir, parent_.get(), dir->path.empty() ? "." : last_of(dir->path), as(*dir, kept)));
    }
    return {};
  }

 private:
  using Xattrs = std::vector<std::pair<std::string, std::string>>;

  MadeAs as(const TreeEntry& entry, const Xattrs& xattrs) const {
    return {.mode = entry.mode, .owners = owners_, .xattrs = &xattrs};
  }
  // What only root may set is left out for others.
  Xattrs xattrs_of(const TreeEntry& entry) const {
    if (owners_ == Owners::keep) return entry.xattrs;
    Xattrs kept;
    for (const auto& xattr : entry.xattrs) {
      if (xattr.first.starts_with("user.")) kept.push_back(xattr);
    }
    return kept;
  }

  Status parent(const std::string& path) {
    if (parent_ && path == parent_path_) return {};
    auto fd = into_.directory(path);
    if (!fd) return sys::fail_errno("cannot write to " + into_.shown(path));
    parent_ = std::move(*fd);
    parent_path_ = path;
    return {};
  }

  Status put(const TreeEntry& entry) {
    if (entry.type == 'd') directories_.push_back(entry);
    if (entry.path.empty()) return {};
    TRY(parent(parent_of(entry.path)));
    const std::string name = last_of(entry.path);
    if (entry.type != 'd' && entry.nlink > 1) {
      const auto [first, added] = links_.try_emplace(entry.ino, entry.path);
      if (!added) return link(first->second, entry, name);
    }
    if (entry.type == 'd') return make_entry(tree_, entry, parent_.get(), name, {});
    const auto kept = xattrs_of(entry);
    return make_entry(tree_, entry, parent_.get(), name, as(entry, kept));
  }

  Status link(const std::string& first, const TreeEntry& entry, const std::string& name) {
    const auto from = into_.directory(parent_of(first));
    if (!from || ::linkat(from->get(), last_of(first).c_str(), parent_.get(), name.c_str(), 0) < 0)
      return sys::fail_errno("cannot link '" + entry.path + "'");
    return {};
  }

  const turn::StoredTree& tree_;
  const Beneath& into_;
  const Owners owners_;
  std::vector<TreeEntry> directories_;  // parents first
  std::unordered_map<uint64_t, std::string> links_;
  sys::Fd parent_;
  std::string parent_path_;
};

Status check_target(const std::string& directory) {
  struct stat st;
  if (::lstat(directory.c_str(), &st) < 0) {
    if (errno == ENOENT) return {};
    return sys::fail_errno("cannot export to " + directory);
  }
  const auto refused = [&](const char* what) {
    return sys::fail(ErrorKind::conflict,
                     directory + " is " + what + "; export to a directory that is empty or not there");
  };
  if (!S_ISDIR(st.st_mode)) return refused("no directory");
  TRY_ASSIGN(const Beneath there, Beneath::open(directory));
  const auto names = names_in(there.root());
  if (!names) return sys::fail_errno("cannot read " + directory);
  if (!names->empty()) return refused("not empty");
  return {};
}

}  // namespace

Status export_directory(const turn::StoredTree& tree, const std::string& directory) {
  if (tree.ref().kind != store::ObjectKind::dir) {
    return sys::fail(ErrorKind::invalid, "this version is one file; use `turnbox workspace cat`");
  }
  std::string target = directory;
  while (target.size() > 1 && target.ends_with("/")) target.pop_back();
  TRY(check_target(target));
  std::string aside = target + ".turnbox-export-XXXXXX";
  if (::mkdtemp(aside.data()) == nullptr) return sys::fail_errno("cannot write beside " + target);
  Status made = [&]() -> Status {
    TRY_ASSIGN(const Beneath into, Beneath::open(aside));
    TRY(Builder(tree, into).run());
    if (::rename(aside.c_str(), target.c_str()) < 0) return sys::fail_errno("cannot write " + target);
    return {};
  }();
  if (!made) {
    if (auto parent = sys::open_fd(".", O_RDONLY | O_DIRECTORY)) (void)remove_tree(parent->get(), aside);
  }
  return made;
}

}  // namespace turnbox::demand
