#include "fs/turn/versions.h"

#include <charconv>

#include "fs/turn/names.h"

namespace turnbox::turn {

using sys::ErrorKind;
using sys::Result;
using sys::Status;

Lease Versions::lease_of_workspace() {
  return snapshots_.lease(tree_, workspace_.root(), {});
}

Lease Versions::lease_of(const std::shared_ptr<Fork>& fork) {
  // The tree outlives its snapshots, and has to give back what they held.
  return snapshots_.lease(*fork->tree, fork->root, [fork, reclaim = reclaim_] { reclaim(fork); });
}

Result<Lease> Versions::read(std::string_view of) {
  if (of == "workspace") return lease_of_workspace();
  if (of.starts_with("@")) {
    const auto named = named_.find(of.substr(1));
    if (named == named_.end())
      return sys::fail(ErrorKind::not_found, "there is no version " + std::string(of.substr(1)));
    if (named->second.fork) return lease_of(named->second.fork);
    return snapshots_.find(named->second.snapshot);
  }
  constexpr std::string_view kSnapshot = "snapshot:";
  uint64_t id = 0;
  if (of.starts_with(kSnapshot)) {
    const std::string_view number = of.substr(kSnapshot.size());
    const auto [end, failed] = std::from_chars(number.data(), number.data() + number.size(), id);
    if (failed == std::errc() && end == number.data() + number.size()) return snapshots_.find(id);
  }
  return sys::fail(ErrorKind::invalid, "of is none of workspace, @NAME, snapshot:N");
}

Status Versions::room(const std::string& name) const {
  if (!is_name(name)) {
    return sys::fail(ErrorKind::invalid,
                     "a version's name is made of lower-case letters, digits and single hyphens");
  }
  if (named_.contains(name)) {
    return sys::fail(ErrorKind::conflict,
                     "there is a version " + name + " already; drop it, or take another name");
  }
  return {};
}

Result<uint64_t> Versions::take(std::string_view of, const std::optional<std::string>& name,
                                uint64_t session) {
  if (name) TRY(room(*name));
  if (named_.size() + unnamed_.size() >= kMost) {
    return sys::fail(ErrorKind::limit, "128 versions are kept; drop some first");
  }
  TRY_ASSIGN(Lease lease, read(of));
  const uint64_t id = snapshots_.keep(std::move(lease));
  if (name) {
    named_.emplace(*name, Named{id, nullptr, now_()});
  } else {
    unnamed_.emplace(id, session);
  }
  return id;
}

Status Versions::release(uint64_t snapshot, uint64_t session) {
  const auto found = unnamed_.find(snapshot);
  if (found == unnamed_.end() || found->second != session) {
    return sys::fail(ErrorKind::refused,
                     "snapshot " + std::to_string(snapshot) + " is not this connection's to release");
  }
  unnamed_.erase(found);
  return snapshots_.release(snapshot);
}

Status Versions::fork(uint64_t snapshot, const std::string& name) {
  TRY(room(name));
  if (named_.size() + unnamed_.size() >= kMost) {
    return sys::fail(ErrorKind::limit, "128 versions are kept; drop some first");
  }
  TRY_ASSIGN(const Lease lease, snapshots_.find(snapshot));
  auto fork = std::make_shared<Fork>(Fork{lease->tree->fork(lease->snapshot), lease->workspace});
  // The epoch that the snapshot is of may be an old one, which answers ESTALE in its own tree.
  const auto root = fork->tree->getattr(fork->root);
  if (!root)
    return sys::fail(ErrorKind::not_found, "snapshot " + std::to_string(snapshot) + " has no workspace");
  fork->tree->set_zone_state(root->zone, fs::ZoneState::writable);
  fork->tree->on_garbage([weak = std::weak_ptr(fork), reclaim = reclaim_] {
    if (auto alive = weak.lock()) reclaim(std::move(alive));
  });
  named_.emplace(name, Named{snapshot, std::move(fork), now_()});
  return {};
}

Result<std::shared_ptr<Fork>> Versions::find_fork(std::string_view name) const {
  const auto found = named_.find(name);
  if (found == named_.end())
    return sys::fail(ErrorKind::not_found, "there is no version " + std::string(name));
  if (!found->second.fork) {
    return sys::fail(ErrorKind::refused,
                     std::string(name) + " is a snapshot, which nobody changes; make a fork of it");
  }
  return found->second.fork;
}

Status Versions::drop(const std::string& name) {
  const auto found = named_.find(name);
  if (found == named_.end()) return sys::fail(ErrorKind::not_found, "there is no version " + name);
  if (!found->second.fork) TRY(snapshots_.release(found->second.snapshot));
  named_.erase(found);
  return {};
}

std::vector<VersionRow> Versions::list() const {
  std::vector<VersionRow> rows;
  for (const auto& [name, what] : named_)
    rows.push_back({name, what.fork != nullptr, what.snapshot, what.made});
  return rows;
}

void Versions::left(uint64_t session) {
  for (auto at = unnamed_.begin(); at != unnamed_.end();) {
    if (at->second != session) {
      ++at;
      continue;
    }
    (void)snapshots_.release(at->first);
    at = unnamed_.erase(at);
  }
}

}  // namespace turnbox::turn
