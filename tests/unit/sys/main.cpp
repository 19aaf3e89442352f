#define BOOST_TEST_MODULE sys
#include <boost/test/unit_test.hpp>
