#define BOOST_TEST_MODULE guest_vhost
#include <boost/test/unit_test.hpp>
