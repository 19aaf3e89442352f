// Clears what killed owners left: sandboxes whose lock can be taken, and rows of the store that name none.
//
// The order is the reverse of a start: QEMU is killed (fsd and vsockd died with their owner), the runtime
// directory is removed, then the row is erased; so a reconciliation that is killed itself is made good by the
// next one.
#pragma once

#include <string>
#include <vector>

#include "broker/demand/places.h"
#include "broker/store/store.h"

namespace turnbox::demand {

struct Reconciled {
  std::vector<std::string> sandboxes;  // ids that were cleared
  size_t processes = 0;                // killed
};

// Never touches what has a living owner.
sys::Result<Reconciled> reconcile(const Places& places, store::Store& store);

}  // namespace turnbox::demand
