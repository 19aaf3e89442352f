// Which tier is given, for every kind of host, from injected facts.
#include <boost/test/unit_test.hpp>

#include "vmm/domain/tier.h"

using namespace turnbox;
using domain::HardwareFacts;
using domain::Tier;

namespace {

HardwareFacts good() {
  HardwareFacts facts;
  facts.api_version = 12;
  facts.cpu_vmx_or_svm = true;
  facts.kvm_group = 104;
  facts.group_may_use = true;
  return facts;
}

void check_unusable(const HardwareFacts& facts, const std::string& words) {
  const auto verdict = domain::judge_hardware(facts);
  BOOST_TEST(!verdict.usable);
  BOOST_TEST_CONTEXT(verdict.reason) BOOST_CHECK(verdict.reason.find(words) != std::string::npos);
  // Without a wish: emulated. With one: refused, never lowered.
  const auto best = domain::choose_tier(std::nullopt, facts);
  BOOST_REQUIRE(best);
  BOOST_CHECK(*best == Tier::emulated);
  const auto asked = domain::choose_tier(Tier::hardware, facts);
  BOOST_REQUIRE(!asked);
  BOOST_CHECK(asked.error().kind == sys::ErrorKind::refused);
  BOOST_CHECK(asked.error().text.find(verdict.reason) != std::string::npos);
  BOOST_CHECK(asked.error().text.find(verdict.remedy) != std::string::npos);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tier)

BOOST_AUTO_TEST_CASE(a_good_host_gives_hardware) {
  BOOST_TEST(domain::judge_hardware(good()).usable);
  BOOST_CHECK(*domain::choose_tier(std::nullopt, good()) == Tier::hardware);
  BOOST_CHECK(*domain::choose_tier(Tier::hardware, good()) == Tier::hardware);
  BOOST_CHECK(*domain::choose_tier(Tier::emulated, good()) == Tier::emulated);
}

BOOST_AUTO_TEST_CASE(no_device) {
  HardwareFacts facts;
  facts.open_errno = ENOENT;
  check_unusable(facts, "there is no /dev/kvm");
  facts.cpu_vmx_or_svm = true;
  check_unusable(facts, "the CPU can virtualise, but there is no usable /dev/kvm");
}

BOOST_AUTO_TEST_CASE(no_permission) {
  auto facts = good();
  facts.open_errno = EACCES;
  check_unusable(facts, "this user may not use it");
}

BOOST_AUTO_TEST_CASE(an_open_that_fails_otherwise) {
  auto facts = good();
  facts.open_errno = EBUSY;
  check_unusable(facts, "cannot be opened");
}

BOOST_AUTO_TEST_CASE(another_api_version) {
  auto facts = good();
  facts.api_version = 11;
  check_unusable(facts, "API version 11");
}

BOOST_AUTO_TEST_CASE(no_machine_can_be_created) {
  auto facts = good();
  facts.create_vm_errno = ENOMEM;
  check_unusable(facts, "cannot create a machine");
}

BOOST_AUTO_TEST_CASE(kvm_without_hardware_behind_it) {
  auto facts = good();
  facts.cpu_vmx_or_svm = false;
  check_unusable(facts,
                 "the CPU shows neither vmx nor svm: KVM here is not backed by hardware virtualisation");
}

BOOST_AUTO_TEST_CASE(qemus_group_is_the_devices) {
  auto facts = good();
  BOOST_CHECK(domain::kvm_group_for(Tier::hardware, facts) == gid_t{104});
  BOOST_CHECK(!domain::kvm_group_for(Tier::emulated, facts));
  facts.others_may_use = true;
  BOOST_CHECK(!domain::kvm_group_for(Tier::hardware, facts));
}

BOOST_AUTO_TEST_CASE(names_go_both_ways) {
  for (const Tier tier : {Tier::hardware, Tier::emulated}) {
    BOOST_CHECK(*domain::tier_named(domain::name_of(tier)) == tier);
  }
  BOOST_CHECK(domain::tier_named("fast").error().kind == sys::ErrorKind::usage);
}

BOOST_AUTO_TEST_CASE(this_host_gives_one_answer) {
  // Whatever this host is: a probe that says «usable» has opened the device and made a machine.
  const auto facts = domain::probe_hardware();
  const auto verdict = domain::judge_hardware(facts);
  BOOST_TEST(verdict.usable == (facts.open_errno == 0 && facts.api_version == 12 &&
                                facts.create_vm_errno == 0 && facts.cpu_vmx_or_svm));
  BOOST_TEST(!verdict.reason.empty());
}

BOOST_AUTO_TEST_SUITE_END()
