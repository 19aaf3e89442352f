#define BOOST_TEST_MODULE issues
#include <boost/test/unit_test.hpp>
