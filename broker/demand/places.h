// Where turnbox keeps things: the state directory (store, images, keys) and the runtime directory (live
// sandboxes).
#pragma once

#include <string>

#include "vmm/sys/result.h"

namespace turnbox::demand {

struct Places {
  std::string state;    // root: /var/lib/turnbox; others: $XDG_STATE_HOME/turnbox or ~/.local/state/turnbox
  std::string runtime;  // root: /run/turnbox; others: $XDG_RUNTIME_DIR/turnbox or /tmp/turnbox-<uid>
  std::string slots;    // locks of sandbox users: one place a host, whatever the state (user_slot.h)
};

// `chosen` is --state; empty: TURNBOX_STATE, else the usual place. The runtime directory of a chosen state is
// a subdirectory named by that state's path, so that a command cleans only what belongs to its own state.
// Makes nothing.
sys::Result<Places> find_places(const std::string& chosen);

// Makes both where they are missing (0755 state as root, else 0700) and checks that they can be written to.
sys::Status make_places(const Places& places);

// One directory level after the other; existing ones stay as they are.
sys::Status make_directories(const std::string& path, unsigned mode);

}  // namespace turnbox::demand
