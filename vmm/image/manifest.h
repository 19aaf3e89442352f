// image.json: what an image is made of. Canonical bytes (sorted keys, no spaces), since the image's digest is
// taken of them. Specified in docs/IMAGES.md; golden bytes in tests/unit/image/manifest_test.cpp. Pure
// values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "vmm/sys/digest.h"
#include "vmm/sys/result.h"

namespace turnbox::image {

struct ImageFile {
  std::string name;  // initramfs, kernel, root.erofs
  sys::Digest sha256;
  uint64_t size = 0;
  bool operator==(const ImageFile&) const = default;
};

// What was asked for; two builds of one recipe may differ by what Debian published between them.
struct Recipe {
  std::string suite;
  std::vector<std::string> packages;  // sorted
  int64_t version =
      0;  // of the builder: counted up when it makes another kernel or root of the same packages
  bool operator==(const Recipe&) const = default;
};

struct Manifest {
  sys::Digest agent;             // plain SHA-256 of turnbox-init
  std::vector<ImageFile> files;  // sorted by name
  std::string kernel_version;
  std::vector<std::string> kernel_words;
  std::vector<std::string> modules;   // in loading order
  std::vector<std::string> packages;  // NAME=VERSION of the root image, sorted
  Recipe recipe;

  const ImageFile* file(std::string_view name) const;
  bool operator==(const Manifest&) const = default;
};

std::string format_manifest(const Manifest& manifest);
// Errors are of kind invalid. Refuses unknown or missing members, names with a slash, and other versions of
// the format.
sys::Result<Manifest> parse_manifest(std::string_view bytes);

}  // namespace turnbox::image
