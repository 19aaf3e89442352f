#define BOOST_TEST_MODULE guest_fs
#include <boost/test/unit_test.hpp>
