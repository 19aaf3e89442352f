// Signals as a descriptor: how a verb that waits for something learns that it is to end.
#pragma once

#include "vmm/sys/fd.h"

namespace turnbox::cli {

// SIGINT, SIGTERM and SIGHUP, from here on and for every thread started later: a signalfd that does not
// block.
sys::Result<sys::Fd> signals_as_descriptor();

}  // namespace turnbox::cli
