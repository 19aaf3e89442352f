// Versions of workspaces by name: what the store keeps, and what running sandboxes have.
//
// Used from one thread, beside a Store of the same state directory.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "broker/demand/places.h"
#include "broker/demand/version_name.h"
#include "broker/store/store.h"
#include "broker/turn/stored_tree.h"
#include "fs/control/client.h"

namespace turnbox::demand {

struct StoredVersion {
  std::string shown;  // the whole name: «01JD…:after»
  std::string account;
  turn::TreeRef tree;
};

struct LiveVersion {
  std::string demand;
  std::string of;  // as the control socket says: `workspace` or `@NAME`
};

using Version = std::variant<StoredVersion, LiveVersion>;

// A version of the store. Kind not_found, or invalid where the turn has it not captured, with the reason;
// usage for a live one.
sys::Result<StoredVersion> find_stored(store::Store& store, std::string_view text);
// Whichever it is. Whether a live one is there its sandbox says when it is asked.
sys::Result<Version> find_version(const Places& places, store::Store& store, std::string_view text);

// Running sandboxes of this state directory, by demand, sorted.
std::vector<std::string> live_demands(const Places& places);
std::string runtime_dir_of(const Places& places, const std::string& demand);
// An operator's connection to its fsd (docs/WIRE.md, «Operators»). Kind not_found: no such sandbox runs.
sys::Result<control::Client> connect_files(const Places& places, const std::string& demand);

}  // namespace turnbox::demand
