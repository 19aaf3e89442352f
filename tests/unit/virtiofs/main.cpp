#define BOOST_TEST_MODULE virtiofs
#include <boost/test/unit_test.hpp>
