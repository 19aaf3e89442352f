// Versions that operators keep of a live sandbox: named snapshots, and forks, which are second live trees.
//
// Belongs to the thread that owns the trees. What «of» may say, everywhere: `workspace` (as it is now),
// `@NAME` (a named snapshot, or a fork as it is now), `snapshot:N` (a held snapshot).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fs/turn/snapshots.h"
#include "fs/turn/workspace.h"

namespace turnbox::turn {

// A second live tree with the workspace as it was in a snapshot. Lives until its last user lets go.
struct Fork {
  std::unique_ptr<fs::Tree> tree;
  fs::Ino root = fs::kNoIno;
};

struct VersionRow {
  std::string name;
  bool fork = false;
  uint64_t snapshot = 0;  // its number; of a fork: the one it began as
  fs::Time made;
};

class Versions {
 public:
  static constexpr size_t kMost = 128;  // snapshots and forks of operators; the turns' own come beside them

  // `reclaim` is told of a tree that has something to give back.
  Versions(fs::Tree& tree, Workspace& workspace, Snapshots& snapshots, fs::Tree::Now now,
           std::function<void(std::shared_ptr<Fork>)> reclaim)
      : tree_(tree),
        workspace_(workspace),
        snapshots_(snapshots),
        now_(std::move(now)),
        reclaim_(std::move(reclaim)) {}

  // A view of `of`: a snapshot for the moment where it is live.
  sys::Result<Lease> read(std::string_view of);
  // Takes a snapshot. Without a name it is `session`'s, and goes with it. Kind conflict: the name is taken.
  sys::Result<uint64_t> take(std::string_view of, const std::optional<std::string>& name, uint64_t session);
  // Kind refused for a snapshot that has a name, or is another's.
  sys::Status release(uint64_t snapshot, uint64_t session);
  sys::Status fork(uint64_t snapshot, const std::string& name);
  sys::Result<std::shared_ptr<Fork>> find_fork(std::string_view name) const;
  sys::Status drop(const std::string& name);  // a snapshot or a fork
  std::vector<VersionRow> list() const;
  void left(uint64_t session);

 private:
  struct Named {
    uint64_t snapshot;
    std::shared_ptr<Fork> fork;  // null: a snapshot
    fs::Time made;
  };
  sys::Status room(const std::string& name) const;
  Lease lease_of_workspace();
  Lease lease_of(const std::shared_ptr<Fork>& fork);

  fs::Tree& tree_;
  Workspace& workspace_;
  Snapshots& snapshots_;
  fs::Tree::Now now_;
  std::function<void(std::shared_ptr<Fork>)> reclaim_;
  std::map<std::string, Named, std::less<>> named_;
  std::map<uint64_t, uint64_t> unnamed_;  // snapshot → session
};

}  // namespace turnbox::turn
