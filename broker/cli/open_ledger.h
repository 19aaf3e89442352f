// What every verb on records starts with: places, the store, and a look after killed owners' leftovers.
#pragma once

#include "broker/cli/options.h"
#include "broker/demand/places.h"
#include "broker/turn/ledger.h"

namespace turnbox::cli {

struct Opened {
  demand::Places places;
  turn::Ledger ledger;
};

sys::Result<Opened> open_ledger(const Options& options);

}  // namespace turnbox::cli
