#define BOOST_TEST_MODULE guest_vhost
#include <spdlog/spdlog.h>

#include <boost/test/unit_test.hpp>

// The daemon's complaints are what these tests provoke.
struct Quiet {
  Quiet() { spdlog::set_level(spdlog::level::off); }
};
BOOST_TEST_GLOBAL_FIXTURE(Quiet);
