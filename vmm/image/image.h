// Guest images on disk: found by name or digest, and verified before use.
//
// An image is the directory <state>/images/<digest>/ with kernel, initramfs, root.erofs and image.json, which
// names the others' digests and sizes; the image's digest is digest("image", bytes of image.json). A name is
// a symlink <state>/images/<name> → <digest>. Format and threats: docs/IMAGES.md. Values; any thread.
//
// 1. What find() returns was verified: every file has the size and the digest that image.json names.
// 2. A directory named by a digest is complete: builds happen beside it and are renamed into place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "vmm/sys/digest.h"
#include "vmm/sys/result.h"

namespace turnbox::image {

struct Image {
  std::string name;  // as it was asked for
  sys::Digest digest;
  std::string directory;
  sys::Digest kernel_digest;              // plain SHA-256 of the kernel file
  std::string kernel_version;             // 6.1.0-…-cloud-amd64
  std::vector<std::string> kernel_words;  // for the kernel command line of every boot of this image
  std::vector<std::string> packages;      // NAME=VERSION, sorted

  std::string kernel_path() const { return directory + "/kernel"; }
  std::string initramfs_path() const { return directory + "/initramfs"; }
  std::string root_path() const { return directory + "/root.erofs"; }
};

struct Listed {
  std::string name;  // empty: an image that no name leads to
  sys::Digest digest;
};

class Images {
 public:
  explicit Images(std::string state) : directory_(std::move(state) + "/images") {}

  // Verified: at once where the files are unchanged since a verification (a stamp tells), else by hashing
  // all. Errors: not_found names the images there are and the command that builds one; invalid names the file
  // and both digests.
  sys::Result<Image> find(const std::string& name_or_digest) const;
  // The same, always hashing all.
  sys::Result<Image> verify(const std::string& name_or_digest) const;
  sys::Result<std::vector<Listed>> list() const;  // sorted by name, then digest; broken names are left out

  const std::string& directory() const { return directory_; }

 private:
  sys::Result<sys::Digest> resolve(const std::string& asked) const;
  sys::Result<Image> check(const std::string& asked, bool trust_stamp) const;
  std::string directory_;
};

// Words for turnbox-init (vmm/guest/boot.h); they may stand anywhere on the kernel command line.
std::vector<std::string> init_words(uint32_t epoch);

}  // namespace turnbox::image
