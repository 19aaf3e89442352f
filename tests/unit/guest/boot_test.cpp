// What of booting is pure: the kernel command line.
#include "vmm/guest/boot.h"

#include <boost/test/unit_test.hpp>

using turnbox::guest::parse_command_line;

BOOST_AUTO_TEST_SUITE(boot)

BOOST_AUTO_TEST_CASE(takes_its_own_words) {
  auto options = parse_command_line("console=ttyS0 turnbox.epoch=7 quiet turnbox.hostname=box-1\n");
  BOOST_REQUIRE(options);
  BOOST_TEST(options->epoch == 7U);
  BOOST_TEST(options->hostname == "box-1");
}

BOOST_AUTO_TEST_CASE(has_defaults) {
  BOOST_TEST(parse_command_line("quiet\n")->epoch == 1U);
  BOOST_TEST(parse_command_line("")->hostname == "turnbox");
}

BOOST_AUTO_TEST_CASE(refuses_wrong_words) {
  for (const char* line : {"turnbox.epoch=0", "turnbox.epoch=1x", "turnbox.epoch",
                           "turnbox.epoch=", "turnbox.what=1", "turnbox.hostname="}) {
    BOOST_TEST(!parse_command_line(line), line);
  }
}

BOOST_AUTO_TEST_SUITE_END()
