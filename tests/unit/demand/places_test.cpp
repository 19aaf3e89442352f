#include "broker/demand/places.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "broker/demand/demand_name.h"
#include "broker/demand/runtime_dir.h"

namespace turnbox::demand {

BOOST_AUTO_TEST_SUITE(places)

BOOST_AUTO_TEST_CASE(chosen_state_gets_a_runtime_of_its_own) {
  const auto one = find_places("/tmp/one");
  const auto two = find_places("/tmp/two");
  BOOST_REQUIRE(one.has_value());
  BOOST_TEST(one->state == "/tmp/one");
  BOOST_TEST(one->runtime != two->runtime);
  BOOST_TEST(one->slots == two->slots);
  BOOST_TEST(find_places("/tmp/x/../one")->runtime == one->runtime);
}

BOOST_AUTO_TEST_CASE(runtime_directory_has_one_owner_and_leaves_nothing) {
  char name[] = "/tmp/turnbox-test-XXXXXX";
  const std::string base = ::mkdtemp(name);
  {
    auto dir = RuntimeDir::make(base, "run-1", 0);
    BOOST_REQUIRE(dir.has_value());
    auto second = RuntimeDir::take_over(dir->path());
    BOOST_REQUIRE(!second.has_value());
    BOOST_TEST((second.error().kind == sys::ErrorKind::conflict));
    struct stat st;
    BOOST_REQUIRE(::stat(dir->path().c_str(), &st) == 0);
    BOOST_TEST((st.st_mode & 07777) == 0710);
  }
  BOOST_TEST(std::filesystem::is_empty(base));
  std::filesystem::remove_all(base);
}

BOOST_AUTO_TEST_CASE(demand_of_a_run_is_named_by_its_turn) {
  BOOST_TEST(demand_of_turn("01ARZ3NDEKTSV4RRFFQ69G5FAV") == "run-q69g5fav");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::demand
