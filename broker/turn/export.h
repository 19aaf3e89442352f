// One turn as a tar file that docs/verify.py, or anybody with docs/RECORD.md, can check (docs/RECORD.md,
// «Export»).
#pragma once

#include <string_view>

#include "broker/turn/ledger.h"

namespace turnbox::turn {

// Writes record.json, record.sig, public.key, chain/ and objects/ to `fd`, from its position on. Nothing in
// it says when or by whom it was made: the same turn gives the same bytes.
sys::Status export_tar(Ledger& ledger, std::string_view turn_or_prefix, int fd);

}  // namespace turnbox::turn
