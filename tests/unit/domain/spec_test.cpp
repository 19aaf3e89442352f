// The domain XML: golden text for each shape, and what is refused.
// TURNBOX_UPDATE_GOLDEN=1 writes the golden files anew; read the difference before committing it.
#include <boost/test/unit_test.hpp>
#include <cstdlib>

#include "vmm/domain/spec.h"
#include "vmm/sys/fd.h"

using namespace turnbox;
using domain::DomainSpec;

namespace {

DomainSpec whole() {
  DomainSpec spec;
  spec.name = "run-0a1b2c3d";
  spec.uuid = "3f1c9c54-2f3b-4d7e-9d53-5f6d0c1b2a10";
  spec.memory_mib = 1024;
  spec.vcpus = 2;
  spec.kernel = "/var/lib/turnbox/images/k/vmlinuz";
  spec.initramfs = "/var/lib/turnbox/images/k/initramfs";
  spec.cmdline = "console=ttyS0 panic=-1 reboot=t quiet tsc_early_khz=2596148";
  spec.root_image = "/var/lib/turnbox/images/r/root.erofs";
  spec.workspace_socket = "/run/turnbox/01/ws.sock";
  spec.turn_socket = "/run/turnbox/01/turn.sock";
  spec.vsock_socket = "/run/turnbox/01/vsock-vu.sock";
  spec.console_socket = "/run/turnbox/01/console.sock";
  return spec;
}

void check_golden(const std::string& name, const DomainSpec& spec) {
  const std::string path = std::string(GOLDEN_DIR) + "/" + name + ".xml";
  const auto xml = domain::to_xml(spec);
  BOOST_REQUIRE_MESSAGE(xml, (xml ? "" : xml.error().text));
  if (std::getenv("TURNBOX_UPDATE_GOLDEN") != nullptr) BOOST_REQUIRE(sys::replace_file(path, *xml, 0644));
  const auto golden = sys::read_file(path, 1 << 20);
  BOOST_REQUIRE_MESSAGE(golden, "no golden file " << path);
  BOOST_TEST(*xml == *golden);
}

void check_refused(const DomainSpec& spec, const std::string& words) {
  const auto xml = domain::to_xml(spec);
  BOOST_REQUIRE(!xml);
  BOOST_CHECK(xml.error().kind == sys::ErrorKind::invalid);
  BOOST_TEST_CONTEXT(xml.error().text) BOOST_CHECK(xml.error().text.find(words) != std::string::npos);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(spec)

BOOST_AUTO_TEST_CASE(emulated_with_every_device) {
  check_golden("emulated", whole());
}

BOOST_AUTO_TEST_CASE(hardware_with_a_user_for_qemu) {
  auto spec = whole();
  spec.tier = domain::Tier::hardware;
  spec.qemu_user = domain::QemuUser{1879048200, 1879048201};
  check_golden("hardware", spec);
}

BOOST_AUTO_TEST_CASE(least_machine_with_a_console_file) {
  DomainSpec spec;
  spec.name = "least";
  spec.memory_mib = 128;
  spec.kernel = "/k";
  spec.initramfs = "/i";
  spec.console_log = "/run/turnbox/01/console.log";
  check_golden("least", spec);
}

BOOST_AUTO_TEST_CASE(markup_and_commas_in_paths_stay_inside_their_place) {
  auto spec = whole();
  spec.kernel = "/a'/><emulator>/bin/sh</emulator><x y='";
  spec.initramfs = "/b]]>&amp;\"";
  spec.cmdline = "a='<&>' \"ü\"";
  spec.root_image = "/c,readonly=off,file=/etc/shadow";
  spec.workspace_socket = "/d'/>";
  spec.turn_socket = "/e&lt;";
  spec.vsock_socket = "/f,server=on,path=/g'";
  spec.console_socket = "/h\"><";
  check_golden("hostile", spec);
}

BOOST_AUTO_TEST_CASE(text_that_xml_cannot_carry_is_refused_by_name) {
  auto spec = whole();
  spec.kernel = "/a\nb";
  check_refused(spec, "kernel holds a control character");
  spec = whole();
  spec.workspace_socket = std::string("/a\0b", 4);
  check_refused(spec, "workspace socket holds a control character");
  spec = whole();
  spec.vsock_socket = "/a\xff";
  check_refused(spec, "vsock socket is not UTF-8");
  spec = whole();
  spec.cmdline = "a\xef\xbf\xbf";
  check_refused(spec, "kernel command line is not UTF-8");
}

BOOST_AUTO_TEST_CASE(paths_are_absolute) {
  auto spec = whole();
  spec.root_image = "root.erofs";
  check_refused(spec, "root image «root.erofs» is not an absolute path");
  spec = whole();
  spec.kernel = "";
  check_refused(spec, "kernel «» is not an absolute path");
}

BOOST_AUTO_TEST_CASE(names_keep_their_alphabet) {
  for (const char* name : {"", "-a", "A", "a/b", "a b", "a.b", "01234567890123456789012345678901234567890"}) {
    auto spec = whole();
    spec.name = name;
    check_refused(spec, "domain name");
  }
}

BOOST_AUTO_TEST_CASE(sizes_out_of_range_are_refused) {
  auto spec = whole();
  spec.memory_mib = 64;
  check_refused(spec, "64 MiB of memory cannot boot; give 128");
  spec.memory_mib = 1ULL << 40;
  check_refused(spec, "cannot boot");
  spec = whole();
  spec.vcpus = 0;
  check_refused(spec, "0 virtual CPUs");
  spec.vcpus = 65;
  check_refused(spec, "65 virtual CPUs");
}

BOOST_AUTO_TEST_CASE(one_console) {
  auto spec = whole();
  spec.console_log = "/x";
  check_refused(spec, "one console");
}

BOOST_AUTO_TEST_SUITE_END()
