// turnbox-fsd without a guest: holds one stored version while an operator looks at it.
//
// Owned by the verb that shows the version; one thread. Ends with it: the daemon's life is its control
// socket's.
#pragma once

#include <memory>
#include <optional>

#include "broker/demand/places.h"
#include "broker/demand/user_slot.h"
#include "fs/control/client.h"
#include "vmm/sys/process.h"

namespace turnbox::demand {

class VersionServer {
 public:
  // Started and empty. As root it runs as a user of its own, with an empty root, as a sandbox's does.
  static sys::Result<std::unique_ptr<VersionServer>> start(const Places& places);

  control::Client& files() { return *files_; }
  int ended_fd() const { return fsd_.pidfd(); }  // readable once the daemon died

 private:
  explicit VersionServer(std::optional<UserSlot> users) : users_(std::move(users)) {}
  std::optional<UserSlot> users_;
  sys::Process fsd_;
  std::optional<control::Client> files_;
};

}  // namespace turnbox::demand
