#include "fake_image.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "vmm/image/initramfs.h"
#include "vmm/sys/fd.h"

namespace turnbox::image::test {

namespace stdfs = std::filesystem;

Scratch::Scratch() {
  char directory[] = "/tmp/turnbox-image-XXXXXX";
  BOOST_REQUIRE(::mkdtemp(directory) != nullptr);
  path_ = directory;
}

Scratch::~Scratch() {
  std::error_code ignored;
  stdfs::remove_all(path_, ignored);
}

std::string add_image(const std::string& state, const std::string& name, const std::string& root,
                      Recipe recipe, std::vector<std::string> kernel_words) {
  Cpio cpio;
  cpio.directory("modules");
  cpio.file("modules/list", "one.ko\ntwo.ko\n", 0644);
  cpio.file("modules/one.ko", "first module", 0644);
  cpio.file("modules/two.ko", "second module", 0644);
  cpio.file("init", "old agent", 0755);
  Manifest manifest{.agent = sys::plain_sha256(sys::as_bytes("old agent")),
                    .kernel_version = "6.1.0-0-test",
                    .kernel_words = std::move(kernel_words),
                    .modules = {"one.ko", "two.ko"},
                    .packages = {"git=1", "python3=3"},
                    .recipe = std::move(recipe)};
  const std::string making = state + "/images/making";
  stdfs::create_directories(making);
  const std::pair<const char*, std::string> parts[] = {
      {"initramfs", cpio.finish()}, {"kernel", "a kernel"}, {"root.erofs", root}};
  for (const auto& [file, bytes] : parts) {
    BOOST_REQUIRE(sys::replace_file(making + "/" + file, bytes, 0644));
    manifest.files.push_back({file, sys::plain_sha256(sys::as_bytes(bytes)), bytes.size()});
  }
  const std::string json = format_manifest(manifest);
  BOOST_REQUIRE(sys::replace_file(making + "/image.json", json, 0644));
  const std::string digest = to_hex(sys::digest_of("image", sys::as_bytes(json)));
  const std::string directory = state + "/images/" + digest;
  stdfs::rename(making, directory);
  stdfs::remove(state + "/images/" + name);
  stdfs::create_symlink(digest, state + "/images/" + name);
  return directory;
}

}  // namespace turnbox::image::test
