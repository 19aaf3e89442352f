// Turn ids: ULIDs, 26 characters of Crockford's base 32, time first. An id, never an authority.
#pragma once

#include <string>
#include <string_view>

#include "vmm/sys/result.h"

namespace turnbox::turn {

sys::Result<std::string> new_ulid();  // now and 80 random bits (getrandom)
bool is_ulid(std::string_view text);  // 26 upper-case digits, first at most '7'

}  // namespace turnbox::turn
