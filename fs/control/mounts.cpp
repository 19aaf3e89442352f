#include "fs/control/mounts.h"

#include <string>
#include <utility>

namespace turnbox::control {

using sys::ErrorKind;

sys::Result<uint64_t> Mounts::attach(uint64_t session, fuse::Options what, sys::Fd device,
                                     std::function<void(uint64_t)> gone) {
  if (mounts_.size() >= kMost) {
    return sys::fail(ErrorKind::limit, "64 mounts are served; unmount one first");
  }
  const fs::Tree* written = what.write ? &what.tree : nullptr;
  for (const auto& [number, mount] : mounts_) {
    if (written != nullptr && mount.written == written) {
      return sys::fail(ErrorKind::conflict, "it is mounted for writing already; unmount that one first");
    }
  }
  const uint64_t number = next_++;
  what.name = "mount " + std::to_string(number);
  TRY_ASSIGN(auto door, fuse::Door::open(io_, std::move(what), std::move(device),
                                         [this, number, gone = std::move(gone)] {
                                           if (mounts_.erase(number) > 0) gone(number);
                                         }));
  mounts_.emplace(number, Mount{session, written, std::move(door)});
  return number;
}

sys::Status Mounts::detach(uint64_t session, uint64_t mount) {
  const auto found = mounts_.find(mount);
  if (found == mounts_.end() || found->second.session != session) {
    return sys::fail(ErrorKind::not_found, "this connection has no mount " + std::to_string(mount));
  }
  mounts_.erase(found);
  return {};
}

void Mounts::left(uint64_t session) {
  std::erase_if(mounts_, [session](const auto& entry) { return entry.second.session == session; });
}

}  // namespace turnbox::control
