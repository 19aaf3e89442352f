// The records of one state directory: the store, the signing key and the checkpoint, kept in step.
//
//   auto ledger = turn::Ledger::open(state_dir);
//   auto kept = ledger->commit(draft, objects);
//
// One thread; see store/store.h for processes and fork. Order of a commit: LMDB transaction (durable when it
// returns), then the checkpoint is replaced. A crash between the two leaves the checkpoint behind, which
// verify says and the next commit mends; a store that is behind its checkpoint has lost records, and commits
// are refused until a person decides (docs/RECORD.md, «Checkpoint»).
#pragma once

#include <string>

#include "broker/store/store.h"
#include "broker/turn/draft.h"

namespace turnbox::turn {

struct Committed {
  sys::Digest record;
  uint64_t chain_index = 0;
  std::string bytes;            // the canonical JSON
  std::string checkpoint_late;  // why the checkpoint could not be replaced; empty when it was
};

class Ledger {
 public:
  static sys::Result<Ledger> open(const std::string& state_dir, const store::OpenOptions& options = {});

  store::Store& store() { return store_; }

  // Fills the chain fields, signs, stores record and objects in one transaction, replaces the checkpoint.
  // Every object that the draft names must be in the store or come from `objects`. The signing key is made at
  // first use.
  sys::Result<Committed> commit(const Draft& draft, store::ObjectSource& objects);

 private:
  explicit Ledger(store::Store store) : store_(std::move(store)) {}
  store::Store store_;
};

}  // namespace turnbox::turn
