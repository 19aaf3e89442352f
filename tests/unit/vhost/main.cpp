#define BOOST_TEST_MODULE vhost
#include <boost/test/unit_test.hpp>
