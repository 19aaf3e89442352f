// How Boost.Test prints turnbox's values.
#pragma once

#include <ostream>

#include "vmm/sys/result.h"

namespace turnbox::sys {

inline std::ostream& operator<<(std::ostream& to, ErrorKind kind) { return to << name_of(kind); }

}  // namespace turnbox::sys
