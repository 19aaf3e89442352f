// A state directory with small images in the right shape, for tests of everything that does not look inside.
#pragma once

#include <string>

#include "vmm/image/manifest.h"

namespace turnbox::image::test {

// A directory that is removed with everything in it.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Writes <state>/images/<digest> whose root.erofs holds `root`, names it, and returns its directory.
std::string add_image(const std::string& state, const std::string& name, const std::string& root,
                      Recipe recipe, std::vector<std::string> kernel_words = {});

}  // namespace turnbox::image::test
