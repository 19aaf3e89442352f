// Finding and verifying images: what is right is found, and every kind of damage is told with file and
// digests.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "fake_image.h"
#include "vmm/image/image.h"
#include "vmm/image/stamp.h"
#include "vmm/sys/fd.h"

using namespace turnbox;
using namespace turnbox::image;
using turnbox::image::test::add_image;
using turnbox::image::test::Scratch;
namespace stdfs = std::filesystem;

namespace {

std::string error_of(const sys::Result<Image>& image) {
  return image ? "found" : image.error().text;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Other bytes of the same length, with the file's old times put back: what a careless restore does.
void damage(const std::string& path) {
  struct stat before {};
  BOOST_REQUIRE(::stat(path.c_str(), &before) == 0);
  const sys::Fd file(::open(path.c_str(), O_WRONLY));
  BOOST_REQUIRE(::pwrite(file.get(), "X", 1, 0) == 1);
  const timespec times[] = {before.st_atim, before.st_mtim};
  BOOST_REQUIRE(::futimens(file.get(), times) == 0);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(images)

BOOST_AUTO_TEST_CASE(found_by_name_and_by_digest) {
  const Scratch state;
  const std::string directory =
      add_image(state.path(), "default", "root", {"bookworm", {"git"}}, {"pci=off"});
  const Images images(state.path());
  auto image = images.find("default");
  BOOST_REQUIRE_MESSAGE(image, error_of(image));
  BOOST_TEST(image->directory == directory);
  BOOST_TEST(image->kernel_path() == directory + "/kernel");
  BOOST_TEST(to_hex(image->kernel_digest) == to_hex(sys::plain_sha256(sys::as_bytes("a kernel"))));
  BOOST_TEST(image->kernel_words == std::vector<std::string>{"pci=off"}, boost::test_tools::per_element());
  auto again = images.find(to_hex(image->digest));
  BOOST_REQUIRE(again);
  BOOST_TEST(again->directory == directory);
}

BOOST_AUTO_TEST_CASE(unknown_images_are_answered_with_what_there_is) {
  const Scratch state;
  const Images images(state.path());
  BOOST_TEST(error_of(images.find("default")) ==
             "no image default in " + state.path() +
                 "/images (there is none); build one with: turnbox image build");
  add_image(state.path(), "default", "root", {"bookworm", {}});
  add_image(state.path(), "small", "other", {"bookworm", {}});
  BOOST_TEST(error_of(images.find("big")) ==
             "no image big in " + state.path() +
                 "/images (there are: default, small); build one with: turnbox image build big");
  for (const char* name : {"", "..", "a/b", ".stamps", "-x", "Default"}) {
    auto image = images.find(name);
    BOOST_REQUIRE(!image);
    BOOST_TEST((image.error().kind == sys::ErrorKind::not_found));
  }
  BOOST_TEST(has(error_of(images.find(std::string(64, '0'))), "there are: default, small"));
}

BOOST_AUTO_TEST_CASE(a_name_that_leads_nowhere) {
  const Scratch state;
  stdfs::remove_all(add_image(state.path(), "default", "root", {"bookworm", {}}));
  const std::string error = error_of(Images(state.path()).find("default"));
  BOOST_TEST(has(error, "image default names "));
  BOOST_TEST(has(error, "run turnbox image build"));
  BOOST_TEST(Images(state.path()).list().value().empty());
}

BOOST_AUTO_TEST_CASE(lists_names_and_nameless_images) {
  const Scratch state;
  add_image(state.path(), "b", "first", {"bookworm", {}});
  add_image(state.path(), "b", "second", {"bookworm", {}});
  add_image(state.path(), "a", "third", {"bookworm", {}});
  auto list = Images(state.path()).list();
  BOOST_REQUIRE(list);
  BOOST_REQUIRE(list->size() == 3U);
  BOOST_TEST((*list)[0].name == "");
  BOOST_TEST((*list)[1].name == "a");
  BOOST_TEST((*list)[2].name == "b");
}

BOOST_AUTO_TEST_CASE(damage_is_found_even_behind_a_stamp) {
  for (const char* file : {"kernel", "initramfs", "root.erofs"}) {
    const Scratch state;
    const std::string directory = add_image(state.path(), "default", "root image", {"bookworm", {}});
    const Images images(state.path());
    BOOST_REQUIRE(images.find("default"));  // leaves a stamp
    damage(directory + "/" + file);
    auto image = images.find("default");
    BOOST_REQUIRE(!image);
    BOOST_TEST((image.error().kind == sys::ErrorKind::invalid));
    BOOST_TEST(has(image.error().text, directory + "/" + file + " has SHA-256 "));
    BOOST_TEST(has(image.error().text, "but image.json says "));
    BOOST_TEST(has(image.error().text, "turnbox image build"));
  }
}

BOOST_AUTO_TEST_CASE(a_damaged_manifest_is_found) {
  const Scratch state;
  const std::string directory = add_image(state.path(), "default", "root image", {"bookworm", {}});
  BOOST_REQUIRE(Images(state.path()).find("default"));
  damage(directory + "/image.json");
  BOOST_TEST(has(error_of(Images(state.path()).find("default")), "/image.json has the digest "));
}

BOOST_AUTO_TEST_CASE(a_missing_or_odd_file_is_found) {
  const Scratch state;
  const std::string directory = add_image(state.path(), "default", "root image", {"bookworm", {}});
  stdfs::remove(directory + "/kernel");
  BOOST_TEST(has(error_of(Images(state.path()).find("default")), directory + "/kernel"));
  stdfs::create_symlink("initramfs", directory + "/kernel");
  BOOST_TEST(has(error_of(Images(state.path()).find("default")), "kernel is not a regular file"));
}

BOOST_AUTO_TEST_CASE(an_unchanged_image_is_not_hashed_again) {
  const Scratch state;
  const std::string directory = add_image(state.path(), "default", "root image", {"bookworm", {}});
  const Images images(state.path());
  auto image = images.find("default");
  BOOST_REQUIRE(image);
  const std::string stamp = state.path() + "/images/.stamps/" + to_hex(image->digest);
  BOOST_REQUIRE(stdfs::exists(stamp));
  damage(directory + "/kernel");
  // The stamp alone decides: made to fit the damaged file it hides the damage from find, never from verify.
  auto manifest = parse_manifest(sys::read_file(directory + "/image.json", 65'536).value());
  write_stamp(images.directory(), image->digest, stamp_of(directory, *manifest).value());
  BOOST_TEST(error_of(images.find("default")) == "found");
  BOOST_TEST(has(error_of(images.verify("default")), "kernel has SHA-256"));
  // A stamp that others could have written counts for nothing.
  BOOST_REQUIRE(::chmod(stamp.c_str(), 0666) == 0);
  BOOST_TEST(has(error_of(images.find("default")), "kernel has SHA-256"));
}

BOOST_AUTO_TEST_CASE(init_words_name_the_epoch) {
  BOOST_TEST(init_words(3) == std::vector<std::string>{"turnbox.epoch=3"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
