#include "vmm/image/initramfs.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace turnbox::image {
namespace {

constexpr std::string_view kTrailer = "TRAILER!!!";

void hex8(std::string& to, uint32_t value) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  for (int shift = 28; shift >= 0; shift -= 4) to += kDigits[(value >> shift) & 15];
}

}  // namespace

void Cpio::pad() {
  out_.resize((out_.size() + 3) & ~size_t{3}, '\0');
}

void Cpio::add(std::string_view path, const Entry& entry, std::string_view bytes) {
  const bool trailer = path == kTrailer;
  out_ += "070701";
  hex8(out_, trailer ? 0 : ++inode_);
  hex8(out_, entry.mode);
  hex8(out_, 0);                            // uid
  hex8(out_, 0);                            // gid
  hex8(out_, S_ISDIR(entry.mode) ? 2 : 1);  // links
  hex8(out_, 0);                            // mtime
  hex8(out_, static_cast<uint32_t>(bytes.size()));
  hex8(out_, 0);  // device of the file system
  hex8(out_, 0);
  hex8(out_, entry.major);
  hex8(out_, entry.minor);
  hex8(out_, static_cast<uint32_t>(path.size() + 1));
  hex8(out_, 0);  // check, unused in newc
  out_.append(path).push_back('\0');
  pad();
  out_ += bytes;
  pad();
}

void Cpio::directory(std::string_view path) {
  add(path, {.mode = S_IFDIR | 0755}, {});
}

void Cpio::file(std::string_view path, std::string_view bytes, uint32_t permissions) {
  add(path, {.mode = S_IFREG | permissions}, bytes);
}

void Cpio::character_device(std::string_view path, uint32_t major, uint32_t minor) {
  add(path, {.mode = S_IFCHR | 0600, .major = major, .minor = minor}, {});
}

std::optional<std::string> file_in_cpio(std::string_view archive, std::string_view path) {
  constexpr size_t kHeader = 110;
  auto padded = [](uint64_t at) { return (at + 3) & ~uint64_t{3}; };
  auto field = [&](int index) -> uint64_t {
    uint32_t value = 0;
    const char* from = archive.data() + 6 + 8 * index;
    const auto [end, error] = std::from_chars(from, from + 8, value, 16);
    return error == std::errc{} && end == from + 8 ? value : UINT32_MAX;
  };
  while (archive.size() >= kHeader && archive.starts_with("070701")) {
    const uint64_t size = field(6);
    const uint64_t name_size = field(11);
    const uint64_t body = padded(kHeader + name_size);
    if (name_size == 0 || body + size > archive.size()) return std::nullopt;
    if (archive.substr(kHeader, name_size - 1) == path) return std::string(archive.substr(body, size));
    archive.remove_prefix(std::min<uint64_t>(padded(body + size), archive.size()));
  }
  return std::nullopt;
}

std::string Cpio::finish() {
  add(kTrailer, {.mode = 0}, {});
  inode_ = 0;
  return std::exchange(out_, {});
}

}  // namespace turnbox::image
