// The pure parts of the host's probes, and that probing a real host answers for everything.
#include "vmm/domain/host_probe.h"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

using namespace turnbox;
using domain::ProbeState;

BOOST_AUTO_TEST_SUITE(host_probe)

BOOST_AUTO_TEST_CASE(tiers_say_what_is_given) {
  domain::HardwareFacts facts;
  facts.open_errno = ENOENT;
  BOOST_CHECK(domain::tiers_probe(facts, true).reason.starts_with("emulated is given"));
  BOOST_CHECK(domain::tiers_probe(facts, false).state == ProbeState::fail);
  BOOST_CHECK(domain::kvm_probe(facts).state == ProbeState::warn);
  BOOST_TEST(!domain::kvm_probe(facts).remedy.empty());
  facts = {};
  facts.api_version = 12;
  facts.cpu_vmx_or_svm = true;
  BOOST_CHECK(domain::tiers_probe(facts, true).reason.starts_with("hardware is given"));
  BOOST_CHECK(domain::kvm_probe(facts).state == ProbeState::ok);
}

BOOST_AUTO_TEST_CASE(every_probe_answers_on_this_host) {
  std::string dir = "/tmp/tbprobe-XXXXXX";
  BOOST_REQUIRE(::mkdtemp(dir.data()) != nullptr);
  const auto probes = domain::probe_host({.scratch = dir, .cache_dir = ""});
  std::string names;
  for (const auto& probe : probes) {
    names += probe.name + " ";
    BOOST_TEST(!probe.reason.empty());
    BOOST_TEST_MESSAGE(probe.name << ": " << domain::name_of(probe.state) << ": " << probe.reason << " | "
                                  << probe.remedy);
  }
  BOOST_TEST(names == "tiers kvm qemu libvirt vsock fuse kernel ");
  BOOST_TEST(std::filesystem::is_empty(dir));  // nothing left behind
  std::filesystem::remove_all(dir);
}

BOOST_AUTO_TEST_SUITE_END()
