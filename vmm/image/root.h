// The guest's root file system: a minimal Debian made by mmdebstrap, packed as erofs.
#pragma once

#include <string>
#include <vector>

#include "vmm/image/manifest.h"
#include "vmm/image/tool.h"
#include "vmm/sys/result.h"

namespace turnbox::image {

// Writes `out` (erofs) and returns the packages in it, NAME=VERSION, sorted. As another user than root it
// works in a user namespace, which needs subordinate ids; their absence is told before anything starts.
sys::Result<std::vector<std::string>> make_root(const Tools& tools, const Recipe& recipe,
                                                const std::string& out);

}  // namespace turnbox::image
