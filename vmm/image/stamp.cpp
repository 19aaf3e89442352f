#include "vmm/image/stamp.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vmm/sys/fd.h"

namespace turnbox::image {
namespace {

std::string stamp_path(const std::string& images, const sys::Digest& digest) {
  return images + "/.stamps/" + to_hex(digest);
}

std::string nanoseconds(const timespec& time) {
  return std::to_string(time.tv_sec * 1'000'000'000 + time.tv_nsec);
}

sys::Result<std::string> stamp_line(const std::string& directory, const std::string& name) {
  const std::string path = directory + "/" + name;
  struct stat at {};
  if (::lstat(path.c_str(), &at) < 0) return sys::fail_errno("cannot look at " + path);
  if (!S_ISREG(at.st_mode)) return sys::fail(sys::ErrorKind::invalid, path + " is not a regular file");
  return name + " " + std::to_string(at.st_dev) + " " + std::to_string(at.st_ino) + " " +
         std::to_string(at.st_size) + " " + nanoseconds(at.st_mtim) + " " + nanoseconds(at.st_ctim) + "\n";
}

}  // namespace

sys::Result<std::string> stamp_of(const std::string& directory, const Manifest& manifest) {
  TRY_ASSIGN(std::string stamp, stamp_line(directory, "image.json"));
  for (const ImageFile& file : manifest.files) {
    TRY_ASSIGN(const std::string line, stamp_line(directory, file.name));
    stamp += line;
  }
  return stamp;
}

bool has_stamp(const std::string& images, const sys::Digest& digest, const std::string& stamp) {
  const std::string path = stamp_path(images, digest);
  struct stat at {};
  if (::lstat(path.c_str(), &at) < 0 || !S_ISREG(at.st_mode) || at.st_uid != ::geteuid() ||
      (at.st_mode & 022) != 0) {
    return false;
  }
  auto text = sys::read_file(path, 65'536);
  return text && *text == stamp;
}

void write_stamp(const std::string& images, const sys::Digest& digest, const std::string& stamp) {
  ::mkdir((images + "/.stamps").c_str(), 0755);
  (void)sys::replace_file(stamp_path(images, digest), stamp, 0644);
}

}  // namespace turnbox::image
