#include "fs/turn/sweeper.h"

#include <cerrno>
#include <chrono>

namespace turnbox::turn {
namespace {

const fs::Caller kHost{.host = true};
constexpr size_t kEntriesAtOnce = 32;

}  // namespace

Sweeper::Sweeper(fs::Tree& tree)
    : tree_(tree), trash_(tree.make_root(tree.add_zone({fs::ZoneState::stale, fs::ZoneUse::plain}), 0700)) {}

fs::Expected<void> Sweeper::discard(fs::Ino dir, std::string_view name) {
  auto moved = tree_.rename(dir, name, trash_, std::to_string(next_), 0, kHost);
  if (!moved && static_cast<int>(moved.error()) == ENOENT) return {};
  if (moved) ++next_;
  return moved;
}

bool Sweeper::remove_some() {
  const fs::Ino dir = path_.empty() ? trash_ : path_.back().dir;
  struct Found {
    fs::Ino ino;
    fs::Type type;
    std::string name;
  };
  std::vector<Found> found;
  (void)tree_.readdir(dir, 0, [&](const fs::Dirent& entry) {
    found.push_back({entry.ino, entry.type, std::string(entry.name)});
    return found.size() < kEntriesAtOnce;
  });
  if (found.empty()) {
    if (path_.empty()) return false;
    const Open done = path_.back();
    path_.pop_back();
    return tree_.rmdir(done.parent, done.name, kHost).has_value();
  }
  for (const Found& entry : found) {
    if (entry.type == fs::Type::directory) {
      path_.push_back({entry.ino, dir, entry.name});
      return true;
    }
    // Removing a name cannot fail for the host; were it to, sweeping stops rather than spins.
    if (!tree_.unlink(dir, entry.name, kHost)) return false;
  }
  return true;
}

bool Sweeper::step(unsigned budget_us) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(budget_us);
  while (remove_some()) {
    if (std::chrono::steady_clock::now() >= until) return true;
  }
  return false;
}

}  // namespace turnbox::turn
