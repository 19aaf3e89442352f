#define BOOST_TEST_MODULE guest_vsock
#include <boost/test/unit_test.hpp>
