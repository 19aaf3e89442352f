#define BOOST_TEST_MODULE vsock
#include <boost/test/unit_test.hpp>
