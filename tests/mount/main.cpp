#define BOOST_TEST_MODULE mount
#define BOOST_TEST_NO_MAIN
#include <boost/test/unit_test.hpp>

#include "tests/support/mounted.h"

int main(int argc, char** argv) {
  turnbox::support::need_fuse();
  return boost::unit_test::unit_test_main(init_unit_test, argc, argv);
}
