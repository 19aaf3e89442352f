#define BOOST_TEST_MODULE fsd
#include <boost/test/unit_test.hpp>
