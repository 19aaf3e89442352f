// The embed root: its directory, its modes, its configuration, and the shared capabilities cache.
#include "vmm/domain/embed_root.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "vmm/sys/fd.h"

using namespace turnbox;
namespace stdfs = std::filesystem;

namespace {

struct Dir {
  std::string path = "/tmp/turnbox-root-XXXXXX";
  Dir() { BOOST_REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Dir() { stdfs::remove_all(path); }
  domain::EmbedOptions options() const {
    domain::EmbedOptions options;
    options.root = path + "/lv";
    options.cache_dir = path + "/cache";
    return options;
  }
};

unsigned mode_of(const std::string& path) {
  struct stat st;
  return ::lstat(path.c_str(), &st) == 0 ? st.st_mode & 07777 : 0;
}

const std::string kName = std::string(64, 'a') + ".xml";
const std::string kContent = "<qemuCaps>\n</qemuCaps>\n";

}  // namespace

BOOST_AUTO_TEST_SUITE(embed_root)

BOOST_AUTO_TEST_CASE(it_goes_with_its_object) {
  const Dir dir;
  {
    auto root = domain::EmbedRoot::make(dir.options());
    BOOST_REQUIRE(root);
    BOOST_TEST(root->uri() == "qemu:///embed?root=" + dir.path + "/lv");
    const auto moved = std::move(*root);
    BOOST_TEST(stdfs::exists(dir.path + "/lv/etc/qemu.conf"));
  }
  BOOST_TEST(!stdfs::exists(dir.path + "/lv"));
}

BOOST_AUTO_TEST_CASE(modes_do_not_hang_on_the_umask) {
  const Dir dir;
  const mode_t before = ::umask(0077);
  auto root = domain::EmbedRoot::make(dir.options());
  ::umask(before);
  BOOST_REQUIRE(root);
  BOOST_TEST(mode_of(dir.path + "/lv") == 0700U);
  BOOST_TEST(mode_of(dir.path + "/lv/lib/qemu") == 0711U);
  BOOST_TEST(mode_of(dir.path + "/lv/cache/qemu/capabilities") == 0700U);
}

BOOST_AUTO_TEST_CASE(qemus_group_may_pass) {
  if (::geteuid() != 0) return;  // only root gives a directory to another group
  const Dir dir;
  auto options = dir.options();
  options.user = domain::QemuUser{1879048200, 1879048200};
  auto root = domain::EmbedRoot::make(options);
  BOOST_REQUIRE(root);
  struct stat st;
  BOOST_REQUIRE(::stat((dir.path + "/lv").c_str(), &st) == 0);
  BOOST_TEST(st.st_gid == 1879048200U);
  BOOST_TEST((st.st_mode & 0777) == 0710U);
  BOOST_TEST(mode_of(dir.path + "/lv/etc") == 0700U);
}

BOOST_AUTO_TEST_CASE(an_existing_directory_is_refused_and_kept) {
  const Dir dir;
  stdfs::create_directory(dir.path + "/lv");
  auto root = domain::EmbedRoot::make(dir.options());
  BOOST_REQUIRE(!root);
  BOOST_CHECK(root.error().kind == sys::ErrorKind::conflict);
  BOOST_TEST(stdfs::exists(dir.path + "/lv"));
}

BOOST_AUTO_TEST_CASE(bad_places_are_refused) {
  auto options = Dir().options();
  for (const std::string& root :
       {std::string("relative"), std::string(), "/tmp/" + std::string(60, 'x'), std::string("/tmp/a?b"),
        std::string("/tmp/a%2f"), std::string("/tmp/a b")}) {
    options.root = root;
    const auto made = domain::EmbedRoot::make(options);
    BOOST_REQUIRE(!made);
    BOOST_CHECK(made.error().kind == sys::ErrorKind::invalid);
  }
}

BOOST_AUTO_TEST_CASE(the_cache_is_copied_in_and_out) {
  const Dir dir;
  const std::string shared = dir.path + "/cache/capabilities-emulated/" + kName;
  {
    auto root = domain::EmbedRoot::make(dir.options());
    BOOST_REQUIRE(root);
    BOOST_REQUIRE(sys::replace_file(root->path() + "/cache/qemu/capabilities/" + kName, kContent, 0600));
    root->save_cache();
    BOOST_TEST(*sys::read_file(shared, 1 << 20) == kContent);
  }
  auto root = domain::EmbedRoot::make(dir.options());
  BOOST_REQUIRE(root);
  BOOST_TEST(*sys::read_file(root->path() + "/cache/qemu/capabilities/" + kName, 1 << 20) == kContent);
}

BOOST_AUTO_TEST_CASE(tiers_have_caches_of_their_own) {
  const Dir dir;
  auto options = dir.options();
  options.tier = domain::Tier::hardware;
  {
    auto root = domain::EmbedRoot::make(options);
    BOOST_REQUIRE(root);
    BOOST_REQUIRE(sys::replace_file(root->path() + "/cache/qemu/capabilities/" + kName, kContent, 0600));
    root->save_cache();
  }
  auto root = domain::EmbedRoot::make(dir.options());
  BOOST_TEST(!stdfs::exists(root->path() + "/cache/qemu/capabilities/" + kName));
}

BOOST_AUTO_TEST_CASE(half_a_file_a_link_and_a_stranger_are_left_out) {
  const Dir dir;
  const std::string shared = dir.path + "/cache/capabilities-emulated/";
  stdfs::create_directories(shared);
  const std::string half = std::string(64, 'b') + ".xml";
  const std::string link = std::string(64, 'c') + ".xml";
  BOOST_REQUIRE(sys::replace_file(shared + half, "<qemuCaps>\n", 0600));
  BOOST_REQUIRE(sys::replace_file(dir.path + "/elsewhere", kContent, 0600));
  stdfs::create_symlink(dir.path + "/elsewhere", shared + link);
  BOOST_REQUIRE(sys::replace_file(shared + "other.txt", kContent, 0600));
  auto root = domain::EmbedRoot::make(dir.options());
  BOOST_REQUIRE(root);
  BOOST_TEST(stdfs::is_empty(root->path() + "/cache/qemu/capabilities"));
}

BOOST_AUTO_TEST_CASE(the_configuration_names_a_user_for_root_only) {
  BOOST_TEST(domain::qemu_conf(true).find("user = \"+0\"") != std::string::npos);
  BOOST_TEST(domain::qemu_conf(false).find("user") == std::string::npos);
  for (const char* needed :
       {"dynamic_ownership = 0", "remember_owner = 0", "seccomp_sandbox = 1", "namespaces = []"}) {
    BOOST_TEST(domain::qemu_conf(false).find(needed) != std::string::npos);
  }
}

BOOST_AUTO_TEST_SUITE_END()
