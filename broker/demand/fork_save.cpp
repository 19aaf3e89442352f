#include "broker/demand/fork_save.h"

#include <cctype>
#include <ctime>

#include "broker/demand/capture.h"
#include "broker/turn/ulid.h"

namespace turnbox::demand {
namespace {

using sys::ErrorKind;

int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// «fork-66dyz0c1», for what cannot go under its own name any more.
sys::Result<std::string> new_name(const std::string& fork) {
  constexpr size_t kTail = 8, kMostStem = 54;  // names have at most 63 characters
  TRY_ASSIGN(std::string id, turn::new_ulid());
  for (char& c : id) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::string stem = fork.substr(0, kMostStem);
  while (stem.ends_with('-')) stem.pop_back();
  return stem + "-" + id.substr(id.size() - kTail);
}

}  // namespace

sys::Result<std::string> save_fork(control::Client& files, store::Store& store,
                                   const store::WorkspaceRow& was) {
  TRY_ASSIGN(const control::SnapshotId snapshot, files.snapshot_take("workspace"));
  Capture capture(files);
  const turn::TreeCapture captured = capture.tree({snapshot, "workspace"});
  if (const auto* none = std::get_if<turn::NotCaptured>(&captured)) {
    return sys::fail(ErrorKind::unavailable, none->reason);
  }
  const auto& tree = std::get<turn::TreeRef>(captured);
  store::WorkspaceRow now = was;
  now.kind = tree.kind;
  now.content = tree.content;
  now.meta = tree.meta;
  store::ObjectSource& objects = capture.objects();
  const sys::Status moved = store.move_workspace(was, now, objects);
  if (moved) return was.name;
  if (moved.error().kind != ErrorKind::conflict) return tl::make_unexpected(moved.error());
  TRY_ASSIGN(now.name, new_name(was.name));
  now.origin = was.name;
  now.created_ns = now_ns();
  TRY(store.move_workspace({}, now, objects));
  return now.name;
}

}  // namespace turnbox::demand
