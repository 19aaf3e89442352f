// The guest's kernel and modules, taken out of Debian's cloud kernel package without installing it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "vmm/image/tool.h"
#include "vmm/sys/result.h"

namespace turnbox::image {

struct Module {
  std::string name;  // file name, as loaded by turnbox-init
  std::string bytes;
};

struct Kernel {
  std::string version;
  std::string bytes;            // an uncompressed ELF where one can be had, else the bzImage
  std::vector<Module> modules;  // in loading order
};

// Fetches the newest cloud kernel that the host's package lists know into the tools' directory and takes it
// apart there.
sys::Result<Kernel> take_kernel(const Tools& tools);

// The compressed payload of a bzImage (boot protocol 2.08 and later), and whether an ELF may be started by
// PVH.
sys::Result<std::string_view> payload_of(std::string_view bz_image);
bool has_pvh_entry(std::string_view elf);
// Without the signature that is appended to a module. Checking it costs every boot; the image's digest covers
// the bytes.
std::string_view without_signature(std::string_view module);

}  // namespace turnbox::image
