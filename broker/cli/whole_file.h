// A file that appears whole or not at all.
#pragma once

#include <functional>
#include <string>

#include "vmm/sys/result.h"

namespace turnbox::cli {

// Lets `fill` write to a file beside, then renames it to `file` (mode 0644). After a failure nothing of it is
// left.
sys::Status write_whole_file(const std::string& file, const std::function<sys::Status(int fd)>& fill);

}  // namespace turnbox::cli
