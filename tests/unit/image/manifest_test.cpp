// Golden bytes of image.json (docs/IMAGES.md).
#include "vmm/image/manifest.h"

#include <boost/test/unit_test.hpp>

using namespace turnbox;
using namespace turnbox::image;

namespace {

const std::string kA(64, 'a');
const std::string kB(64, 'b');
const std::string kGolden =
    R"({"agent":")" + kA + R"(","files":[{"name":"initramfs","sha256":")" + kA +
    R"(","size":"1"},{"name":"kernel","sha256":")" + kB +
    R"(","size":"9007199254740993"},{"name":"root.erofs","sha256":")" + kA +
    R"(","size":"0"}],"format":"turnbox.image.v1","kernel_version":"6.1.0-1-cloud-amd64","kernel_words":["pci=off"],)"
    R"("modules":["a.ko","b.ko"],"packages":["git=1:2"],"recipe":{"packages":["git"],"suite":"bookworm","version":1}})";

Manifest golden() {
  const auto a = *sys::digest_from_hex(kA);
  const auto b = *sys::digest_from_hex(kB);
  return {.agent = a,
          .files = {{"initramfs", a, 1}, {"kernel", b, 9007199254740993}, {"root.erofs", a, 0}},
          .kernel_version = "6.1.0-1-cloud-amd64",
          .kernel_words = {"pci=off"},
          .modules = {"a.ko", "b.ko"},
          .packages = {"git=1:2"},
          .recipe = {.suite = "bookworm", .packages = {"git"}, .version = 1}};
}

std::string error_after(std::string_view what, std::string_view with) {
  std::string text = kGolden;
  const size_t at = text.find(what);
  BOOST_REQUIRE(at != std::string::npos);
  text.replace(at, what.size(), with);
  auto parsed = parse_manifest(text);
  return parsed ? "accepted" : parsed.error().text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(manifest)

BOOST_AUTO_TEST_CASE(golden_bytes) {
  BOOST_TEST(format_manifest(golden()) == kGolden);
  auto parsed = parse_manifest(kGolden);
  BOOST_REQUIRE(parsed);
  BOOST_TEST((*parsed == golden()));
}

BOOST_AUTO_TEST_CASE(golden_digest) {
  BOOST_TEST(to_hex(sys::digest_of("image", sys::as_bytes(kGolden))) ==
             "c153dd941032b85c0869bc064fdb13ac2685505df58602f97e3f4e692492f354");
}

BOOST_AUTO_TEST_CASE(refusals) {
  BOOST_TEST(error_after("image.v1", "image.v2").find("format is turnbox.image.v2") == 0U);
  BOOST_TEST(error_after("\"modules\"", "\"modulez\"") == "unknown member modulez");
  BOOST_TEST(error_after("\"root.erofs\"", "\"../x\"") == "files holds a wrong name");
  BOOST_TEST(error_after("\"root.erofs\"", "\"root\"") == "files lacks root.erofs");
  BOOST_TEST(error_after("\"0\"", "\"-1\"") == "size is not a number");
  BOOST_TEST(error_after("\"0\"", "0") == "size is not a string");
  BOOST_TEST(error_after("aaaa", "AAAA") == "agent is not a digest");
  BOOST_TEST(error_after("[\"pci=off\"]", "[1]") == "kernel_words holds something that is no string");
  BOOST_TEST(error_after("{\"agent\"", "[{\"agent\"") == "not a JSON object");
}

BOOST_AUTO_TEST_SUITE_END()
