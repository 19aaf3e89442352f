// Recomputes everything that a record says from the store's bytes: signature, chain, checkpoint, and every
// digest that can be reached from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "broker/turn/ledger.h"

namespace turnbox::turn {

struct Finding {
  bool wrong;        // false: worth telling, nothing is broken (the checkpoint is behind by N)
  std::string what;  // where, e.g. "workspace/after: src/main.c: chunk 3", "chain", "checkpoint"
  std::string text;  // one sentence
};

struct Verification {
  std::string turn;
  sys::Digest record;
  uint64_t objects = 0, bytes = 0;  // checked
  std::vector<Finding> findings;
  bool good() const;  // no finding is wrong
};

// An error only when the turn cannot be read at all; everything else is a finding.
sys::Result<Verification> verify(Ledger& ledger, std::string_view turn_or_prefix);
// The chains of every demand, the store-wide count and the checkpoint, without the objects. Needs no turn.
sys::Result<std::vector<Finding>> verify_chains(Ledger& ledger);

}  // namespace turnbox::turn
