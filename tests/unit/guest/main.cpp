#define BOOST_TEST_MODULE guest
#include <boost/test/unit_test.hpp>
