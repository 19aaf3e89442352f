#include "vmm/domain/kernel_args.h"

#include <boost/test/unit_test.hpp>

using namespace turnbox;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(kernel_args)

BOOST_AUTO_TEST_CASE(emulated_tells_the_tsc) {
  domain::KernelArgs args;
  args.tsc_khz = 2596148;
  args.extra = {"a=b"};
  args.init = {"c=d", "e"};
  BOOST_TEST(domain::kernel_command_line(args) ==
             "console=ttyS0 panic=-1 reboot=t quiet tsc_early_khz=2596148 a=b -- c=d e");
}

BOOST_AUTO_TEST_CASE(hardware_does_not) {
  domain::KernelArgs args;
  args.tier = domain::Tier::hardware;
  args.tsc_khz = 2596148;
  args.quiet = false;
  BOOST_TEST(domain::kernel_command_line(args) == "console=ttyS0 panic=-1 reboot=t");
}

BOOST_AUTO_TEST_CASE(rate_from_ticks) {
  BOOST_CHECK(domain::tsc_khz_of(2'596'148'000, 1s) == uint64_t{2'596'148});
  BOOST_CHECK(domain::tsc_khz_of(12'980'740, 5ms) == uint64_t{2'596'148});
  BOOST_CHECK(!domain::tsc_khz_of(1, 1s));
  BOOST_CHECK(!domain::tsc_khz_of(1'000'000, 0s));
  BOOST_CHECK(!domain::tsc_khz_of(~0ULL, 1ms));
}

BOOST_AUTO_TEST_CASE(two_measurements_agree) {
  const auto once = domain::host_tsc_khz();
  const auto again = domain::host_tsc_khz(20ms);
  BOOST_REQUIRE((once && again));
  BOOST_TEST(static_cast<double>(*once) == static_cast<double>(*again), boost::test_tools::tolerance(0.005));
}

BOOST_AUTO_TEST_SUITE_END()
