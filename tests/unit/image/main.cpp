#define BOOST_TEST_MODULE image
#include <boost/test/unit_test.hpp>
