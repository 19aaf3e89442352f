// Builds that need no network: a new agent in a kept image, and every way to fail before anything is made.
#include "vmm/image/build.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>

#include "fake_image.h"
#include "vmm/image/initramfs.h"
#include "vmm/sys/fd.h"

using namespace turnbox;
using namespace turnbox::image;
using turnbox::image::test::add_image;
using turnbox::image::test::Scratch;
namespace stdfs = std::filesystem;

namespace {

const Recipe kRecipe{
    .suite = "bookworm", .packages = {"ca-certificates", "git", "python3"}, .version = kBuilderVersion};

struct Fixture {
  Scratch state;
  std::string agent = state.path() + "/agent";
  std::vector<std::string> phases;
  std::function<void()> at_wait;

  Fixture() {
    BOOST_REQUIRE(sys::replace_file(agent,
                                    "\x7f"
                                    "ELF new agent",
                                    0755));
  }

  sys::Result<Image> build(BuildSpec spec = {}) {
    spec.agent = agent;
    return image::build(state.path(), spec, [&](const std::string& phase, const std::string&) {
      phases.push_back(phase);
      if (phase == "wait" && at_wait) at_wait();
    });
  }
  bool left_nothing() const { return !stdfs::exists(state.path() + "/images/.build"); }
};

ino_t inode(const std::string& path) {
  struct stat at {};
  BOOST_REQUIRE(::stat(path.c_str(), &at) == 0);
  return at.st_ino;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(build_image, Fixture)

BOOST_AUTO_TEST_CASE(a_new_agent_keeps_kernel_and_root) {
  const std::string old = add_image(state.path(), "default", "root image", kRecipe, kernel_words());
  auto image = build();
  BOOST_REQUIRE_MESSAGE(image, image.error().text);
  BOOST_TEST(phases == (std::vector<std::string>{"keep", "initramfs", "publish"}),
             boost::test_tools::per_element());
  BOOST_TEST(image->directory != old);
  BOOST_TEST(inode(image->root_path()) == inode(old + "/root.erofs"));
  BOOST_TEST(inode(image->kernel_path()) == inode(old + "/kernel"));
  const std::string archive = sys::read_file(image->initramfs_path(), 65'536).value();
  BOOST_TEST(file_in_cpio(archive, "init").value() ==
             "\x7f"
             "ELF new agent");
  BOOST_TEST(file_in_cpio(archive, "modules/list").value() == "one.ko\ntwo.ko\n");
  BOOST_TEST(file_in_cpio(archive, "modules/two.ko").value() == "second module");
  BOOST_TEST(Images(state.path()).verify("default")->directory == image->directory);
  BOOST_TEST(Images(state.path()).verify(old.substr(old.rfind('/') + 1)).has_value());  // records may name it
  BOOST_TEST(left_nothing());
}

BOOST_AUTO_TEST_CASE(the_same_again_is_the_same_image) {
  add_image(state.path(), "default", "root image", kRecipe, kernel_words());
  auto first = build();
  BOOST_REQUIRE(first);
  phases.clear();
  auto second = build();
  BOOST_REQUIRE(second);
  BOOST_TEST(phases.empty());
  BOOST_TEST(to_hex(first->digest) == to_hex(second->digest));
}

BOOST_AUTO_TEST_CASE(new_kernel_words_make_a_new_image_of_the_same_parts) {
  add_image(state.path(), "default", "root image", kRecipe, {"old"});
  auto image = build();
  BOOST_REQUIRE(image);
  BOOST_TEST(phases.front() == "keep");
  BOOST_TEST(image->kernel_words == kernel_words(), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(another_builder_version_keeps_nothing) {
  Recipe older = kRecipe;
  --older.version;
  add_image(state.path(), "default", "root image", older, kernel_words());
  ::setenv("PATH", "/nonexistent", 1);
  auto image = build();
  ::setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
  BOOST_REQUIRE(!image);
  BOOST_TEST(image.error().text.find("building an image needs ") == 0U);
}

BOOST_AUTO_TEST_CASE(another_recipe_or_a_damaged_image_is_not_kept) {
  ::setenv("PATH", "/nonexistent", 1);  // so that a build in full stops at its first check
  const std::string directory = add_image(state.path(), "default", "root image", kRecipe, kernel_words());
  auto other = build({.packages = {"git"}});
  auto words = build({.name = "second"});
  BOOST_REQUIRE(sys::replace_file(directory + "/root.erofs", "other bytes", 0644));
  auto damaged = build();
  auto fresh = build({.fresh = true});
  ::setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
  for (const auto* image : {&other, &words, &damaged, &fresh}) {
    BOOST_REQUIRE(!*image);
    BOOST_TEST(image->error().text.find("building an image needs ") == 0U);
    BOOST_TEST(image->error().text.find("apt-get install") != std::string::npos);
  }
  BOOST_TEST(left_nothing());
  BOOST_TEST(!stdfs::exists(state.path() + "/images/second"));
}

BOOST_AUTO_TEST_CASE(waits_for_another_build_and_removes_what_a_killed_one_left) {
  add_image(state.path(), "default", "root image", kRecipe, kernel_words());
  stdfs::create_directories(state.path() + "/images/.build/image/half");
  sys::Fd lock(::open((state.path() + "/images/.lock").c_str(), O_RDWR | O_CREAT, 0600));
  BOOST_REQUIRE(::flock(lock.get(), LOCK_EX) == 0);
  at_wait = [&] { lock.reset(); };
  BOOST_REQUIRE(build());
  BOOST_TEST(phases.front() == "wait");
  BOOST_TEST(left_nothing());
}

BOOST_AUTO_TEST_CASE(wrong_words_are_usage_errors) {
  for (const BuildSpec& spec :
       {BuildSpec{.name = "Big"}, BuildSpec{.name = ""}, BuildSpec{.name = "a/b"}, BuildSpec{.name = "-x"},
        BuildSpec{.suite = "--x"}, BuildSpec{.packages = {"a,b"}}, BuildSpec{.packages = {"-x"}}}) {
    auto image = build(spec);
    BOOST_REQUIRE(!image);
    BOOST_TEST((image.error().kind == sys::ErrorKind::usage));
  }
}

BOOST_AUTO_TEST_CASE(an_agent_that_is_none) {
  BOOST_REQUIRE(sys::replace_file(agent, "#!/bin/sh\n", 0755));
  BOOST_TEST(build().error().text == agent + " is not an ELF program");
  stdfs::remove(agent);
  BOOST_TEST((build().error().kind == sys::ErrorKind::not_found));
}

BOOST_AUTO_TEST_CASE(a_state_directory_that_cannot_be_written) {
  BOOST_REQUIRE(sys::replace_file(state.path() + "/images", "a file", 0644));
  BOOST_TEST(build().error().text.find("cannot make " + state.path() + "/images") == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
