#include "vmm/image/image.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "vmm/image/manifest.h"
#include "vmm/image/stamp.h"
#include "vmm/sys/fd.h"

namespace turnbox::image {
namespace {

namespace stdfs = std::filesystem;
using sys::ErrorKind;
using sys::fail;
using sys::Result;
using sys::Status;

constexpr size_t kMaxManifest = size_t{1} << 20;
constexpr std::string_view kBuild = "turnbox image build";

std::string build_command(const std::string& name) {
  return name == "default" ? std::string(kBuild) : std::string(kBuild) + " " + name;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 64 && text.front() != '-' && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

std::optional<sys::Digest> target_of(const stdfs::path& link) {
  std::error_code error;
  const stdfs::path target = stdfs::read_symlink(link, error);
  if (error) return std::nullopt;
  return sys::digest_from_hex(target.string());
}

Result<sys::Digest> hash_file(const std::string& path) {
  TRY_ASSIGN(const sys::Fd file, sys::open_fd(path.c_str(), O_RDONLY | O_NOFOLLOW));
  sys::Sha256 hash;
  std::vector<std::byte> chunk(size_t{1} << 20);
  while (true) {
    auto got = sys::read_full(file.get(), chunk);
    if (!got) return sys::context("cannot read " + path, std::move(got).error());
    hash.update(sys::ByteSpan(chunk).first(*got));
    if (*got < chunk.size()) return hash.finish();
  }
}

Status check_file(const std::string& directory, const ImageFile& file, const std::string& remedy) {
  const std::string path = directory + "/" + file.name;
  TRY_ASSIGN(const sys::Digest digest, hash_file(path));
  if (digest == file.sha256) return {};
  return fail(ErrorKind::invalid, path + " has SHA-256 " + to_hex(digest) + ", but image.json says " +
                                      to_hex(file.sha256) + "; " + remedy);
}

struct Loaded {
  Image image;
  Manifest manifest;
};

Result<Loaded> load_from(const std::string& directory, const std::string& name, const sys::Digest& digest,
                         const std::string& remedy) {
  auto bytes = sys::read_file(directory + "/image.json", kMaxManifest);
  if (!bytes) return sys::context("image " + name, std::move(bytes).error());
  const sys::Digest found = sys::digest_of("image", sys::as_bytes(*bytes));
  if (found != digest) {
    return fail(ErrorKind::invalid, directory + "/image.json has the digest " + to_hex(found) +
                                        ", not that of image " + to_hex(digest) + "; " + remedy);
  }
  auto manifest = parse_manifest(*bytes);
  if (!manifest) {
    return fail(ErrorKind::invalid, directory + "/image.json: " + manifest.error().text + "; " + remedy);
  }
  Loaded loaded;
  loaded.image = {.name = name,
                  .digest = digest,
                  .directory = directory,
                  .kernel_digest = manifest->file("kernel")->sha256,
                  .kernel_version = manifest->kernel_version,
                  .kernel_words = manifest->kernel_words,
                  .packages = manifest->packages};
  loaded.manifest = std::move(*manifest);
  return loaded;
}

}  // namespace

Result<std::vector<Listed>> Images::list() const {
  std::vector<Listed> out;
  std::vector<sys::Digest> unnamed;
  std::error_code error;
  for (stdfs::directory_iterator at(directory_, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    if (at->is_symlink(ignored)) {
      const auto target = target_of(at->path());
      if (target && is_name(name) && stdfs::exists(at->path(), ignored)) out.push_back({name, *target});
    } else if (auto digest = sys::digest_from_hex(name)) {
      unnamed.push_back(*digest);
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return fail(ErrorKind::io, "cannot list " + directory_ + ": " + error.message());
  }
  for (const auto& digest : unnamed) {
    if (std::ranges::find(out, digest, &Listed::digest) == out.end()) out.push_back({"", digest});
  }
  std::ranges::sort(out, [](const Listed& a, const Listed& b) {
    return std::tie(a.name, a.digest) < std::tie(b.name, b.digest);
  });
  return out;
}

Result<sys::Digest> Images::resolve(const std::string& asked) const {
  std::error_code ignored;
  if (auto digest = sys::digest_from_hex(asked)) {
    if (stdfs::exists(directory_ + "/" + asked, ignored)) return *digest;
  } else if (is_name(asked)) {
    auto target = target_of(directory_ + "/" + asked);
    if (target && stdfs::exists(directory_ + "/" + asked, ignored)) return *target;
    if (target) {
      return fail(ErrorKind::not_found, "image " + asked + " names " + to_hex(*target) +
                                            ", which is not in " + directory_ + "; run " +
                                            build_command(asked));
    }
  }
  TRY_ASSIGN(const std::vector<Listed> all, list());
  std::string there;
  for (const Listed& image : all) {
    there += (there.empty() ? "" : ", ") + (image.name.empty() ? to_hex(image.digest) : image.name);
  }
  const std::string build =
      is_name(asked) && !sys::digest_from_hex(asked) ? build_command(asked) : std::string(kBuild);
  return fail(ErrorKind::not_found, "no image " + asked + " in " + directory_ + " (there " +
                                        (there.empty() ? "is none" : "are: " + there) +
                                        "); build one with: " + build);
}

Result<Image> Images::check(const std::string& asked, bool trust_stamp) const {
  TRY_ASSIGN(const sys::Digest digest, resolve(asked));
  const std::string directory = directory_ + "/" + to_hex(digest);
  const std::string remedy = "move the directory away and run " +
                             build_command(is_name(asked) && asked.size() < 64 ? asked : "default");
  TRY_ASSIGN(Loaded loaded, load_from(directory, asked, digest, remedy));
  TRY_ASSIGN(const std::string stamp, stamp_of(directory, loaded.manifest));
  if (trust_stamp && has_stamp(directory_, digest, stamp)) return std::move(loaded.image);
  for (const ImageFile& file : loaded.manifest.files) TRY(check_file(directory, file, remedy));
  // A file changed while it was hashed must not get a stamp.
  TRY_ASSIGN(const std::string after, stamp_of(directory, loaded.manifest));
  if (after != stamp)
    return fail(ErrorKind::conflict, directory + " changed while it was verified; try again");
  write_stamp(directory_, digest, stamp);
  return std::move(loaded.image);
}

Result<Image> Images::find(const std::string& asked) const {
  return check(asked, true);
}
Result<Image> Images::verify(const std::string& asked) const {
  return check(asked, false);
}

std::vector<std::string> init_words(uint32_t epoch) {
  return {"turnbox.epoch=" + std::to_string(epoch)};
}

}  // namespace turnbox::image
