#define BOOST_TEST_MODULE demand
#include <boost/test/unit_test.hpp>
