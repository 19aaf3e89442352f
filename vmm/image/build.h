// Builds a guest image out of Debian packages, without installing anything on the host.
//
// Blocking, for seconds to minutes; one build at a time for each state directory (a lock). Runs apt-get,
// dpkg-deb, mmdebstrap, mkfs.erofs and their like as child processes. A build that fails or is killed leaves
// no image, and the next one removes what it left.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "vmm/image/image.h"

namespace turnbox::image {

// Counted up when a build makes another kernel, module list or root image of the same packages.
inline constexpr int64_t kBuilderVersion = 2;

struct BuildSpec {
  std::string name = "default";
  std::string suite = "bookworm";
  std::vector<std::string> packages = {"ca-certificates", "git", "python3"};  // beside Debian's minimal base
  std::string agent;   // path of turnbox-init; empty: beside the running program
  bool fresh = false;  // even where an image of that name was built from the same recipe
};

// Told when a phase begins: «kernel», «root», … and a detail for a person.
using Progress = std::function<void(const std::string& phase, const std::string& detail)>;

// Kernel and root image are taken from the present image of that name when its recipe is the same and `fresh`
// is false; only the initramfs is made anew then, which takes a second.
sys::Result<Image> build(const std::string& state, const BuildSpec& spec, const Progress& progress);

// What a build writes into image.json as Image::kernel_words: words that make every boot of its kernel
// shorter.
const std::vector<std::string>& kernel_words();

}  // namespace turnbox::image
