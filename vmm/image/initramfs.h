// Writes an initramfs (and reads what it wrote): a cpio archive in the «newc» format, the same bytes for the
// same entries. Pure. Format: Documentation/driver-api/early-userspace/buffer-format.rst of the kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace turnbox::image {

class Cpio {
 public:
  // Paths are relative, parents come first.
  void directory(std::string_view path);
  void file(std::string_view path, std::string_view bytes, uint32_t permissions);
  void character_device(std::string_view path, uint32_t major, uint32_t minor);
  std::string finish();  // with the trailer; the object starts anew

 private:
  struct Entry {
    uint32_t mode;
    uint32_t major = 0;
    uint32_t minor = 0;
  };
  void add(std::string_view path, const Entry& entry, std::string_view bytes);
  void pad();

  std::string out_;
  uint32_t inode_ = 0;
};

// The content of one file of such an archive; empty where it is not there or the archive is none of ours.
std::optional<std::string> file_in_cpio(std::string_view archive, std::string_view path);

}  // namespace turnbox::image
