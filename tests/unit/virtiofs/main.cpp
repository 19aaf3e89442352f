#define BOOST_TEST_MODULE virtiofs
#include <spdlog/spdlog.h>

#include <boost/test/unit_test.hpp>

// Every refusal is a warning in the log; the cases are full of them.
struct Quiet {
  Quiet() { spdlog::set_level(spdlog::level::err); }
};
BOOST_TEST_GLOBAL_FIXTURE(Quiet);
