// Guest images of a state directory: found by name or digest, verified before use (docs/decisions, image builds: build.h).
//
// An image is the directory `<state>/images/<digest>/` with vmlinuz, initramfs, root.erofs and image.json; a name is a symbolic
// link `<state>/images/<name>` to it. Plain values; any thread.
#pragma once

#include <string>
#include <vector>

#include "vmm/sys/digest.h"
#include "vmm/sys/result.h"

namespace turnbox::image {

struct Image {
  std::string name;           // as asked for
  sys::Digest digest;         // digest("image", image.json)
  sys::Digest kernel_digest;  // plain SHA-256 of the kernel file
  std::string directory;      // absolute
  std::string kernel_release;

  std::string kernel_path() const;
  std::string initramfs_path() const;
  std::string root_path() const;
};

class Images {
 public:
  explicit Images(const std::string& state_dir);

  // By name, or by digest (64 digits). not_found lists what exists and the command that builds; invalid names the file that
  // does not fit its digest, and both digests. Full: hashes every file; otherwise a stamp of an earlier full
  // check is believed while no file changed since.
  enum class Check { stamped, full };
  sys::Result<Image> find(const std::string& name_or_digest, Check check = Check::stamped) const;

  struct Listed {
    std::string digest;              // hexadecimal
    std::vector<std::string> names;  // may be empty
    std::string kernel_release;
    uint64_t bytes = 0;
  };
  sys::Result<std::vector<Listed>> list() const;

 private:
  std::string directory_;  // <state>/images
};

// Words for turnbox-init behind «--» of the kernel's command line.
std::vector<std::string> init_words(uint64_t workspace_epoch);

}  // namespace turnbox::image
