// The checkpoint: `<state>/checkpoint.json`, signed, outside the store; says where every chain ended
// (docs/RECORD.md, «Checkpoint»).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "broker/store/store.h"
#include "broker/turn/signing_key.h"

namespace turnbox::turn {

struct Checkpoint {
  uint64_t count = 0;
  std::vector<store::Head> heads;  // without their turn ids
  PublicKey key{};
};

sys::Result<std::string> write_checkpoint(const Checkpoint& checkpoint, const SigningKey& key);
sys::Result<Checkpoint> read_checkpoint(std::string_view bytes);  // form and signature

// The state directory's; empty when there is none.
sys::Result<std::optional<Checkpoint>> load_checkpoint(const std::string& state_dir);

// What of the checkpoint is not in the store: empty when all of it is (the store may be ahead).
sys::Result<std::vector<std::string>> lost_since(const Checkpoint& checkpoint, const store::Reader& reader);

// Under the lock, from a fresh look at the store. conflict: records are lost; the checkpoint is left as it
// is.
sys::Status advance_checkpoint(store::Store& store, const SigningKey& key);

}  // namespace turnbox::turn
