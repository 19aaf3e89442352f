// What a writable mount of a stored fork leaves behind: the files as they are become the fork's.
#pragma once

#include <string>

#include "broker/store/store.h"
#include "fs/control/client.h"

namespace turnbox::demand {

// One transaction, after which the fork `was` has the content of the workspace that `files` serves. Where the
// fork was changed or removed meanwhile, it stays as it is and the content is kept under a new name, which is
// returned; else the name of `was`. Kind limit: the disk is full, and nothing was kept.
sys::Result<std::string> save_fork(control::Client& files, store::Store& store,
                                   const store::WorkspaceRow& was);

}  // namespace turnbox::demand
