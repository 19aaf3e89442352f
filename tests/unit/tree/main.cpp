#define BOOST_TEST_MODULE tree
#include <boost/test/unit_test.hpp>
