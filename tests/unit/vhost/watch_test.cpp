#include "vmm/vhost/watch.h"

#include <boost/test/unit_test.hpp>

namespace turnbox::vhost {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

// A clock that goes on by a microsecond whenever it is read.
Watch::Clock::time_point fake_now;
Watch::Clock::time_point tick() {
  return fake_now += microseconds(1);
}

constexpr auto kMost = microseconds(100);
const auto nothing = [] { return false; };
const auto at_once = [] { return true; };

struct Fake {
  Watch watch{kMost, tick};
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(watch, Fake)

BOOST_AUTO_TEST_CASE(without_patience_there_is_no_watching) {
  Watch none;
  none.begin_round();
  BOOST_TEST(!none.worth_it());
  BOOST_TEST(!none.over());
}

BOOST_AUTO_TEST_CASE(what_comes_is_seen_and_what_does_not_is_given_up_at_the_end_of_the_window) {
  watch.begin_round();
  BOOST_TEST(watch.worth_it());
  BOOST_TEST(watch.until(at_once));
  const auto before = fake_now;
  BOOST_TEST(!watch.until(nothing));
  BOOST_TEST((fake_now - before >= kMost));
  BOOST_TEST((fake_now - before < 2 * kMost));
}

BOOST_AUTO_TEST_CASE(watching_in_vain_is_given_up_by_halves) {
  nanoseconds window = kMost;
  for (int i = 0; i < 5; ++i) {
    BOOST_TEST(!watch.until(nothing));
    window /= 2;
    BOOST_TEST(watch.window().count() == window.count());
  }
  BOOST_TEST(!watch.until(nothing));
  BOOST_TEST(watch.window().count() == 0);
  BOOST_TEST(!watch.worth_it());
}

BOOST_AUTO_TEST_CASE(one_success_makes_the_window_whole) {
  BOOST_TEST(!watch.until(nothing));
  BOOST_TEST(watch.until(at_once));
  BOOST_TEST((watch.window() == kMost));
}

BOOST_AUTO_TEST_CASE(a_short_sleep_makes_the_window_whole_and_a_long_one_does_not) {
  while (watch.worth_it()) (void)watch.until(nothing);
  fake_now += 10 * kMost;
  watch.begin_round();
  BOOST_TEST(!watch.worth_it());
  fake_now += kMost / 2;
  watch.begin_round();
  BOOST_TEST((watch.window() == kMost));
}

BOOST_AUTO_TEST_CASE(a_round_watches_for_its_share_only) {
  watch.begin_round();
  int looks = 0;
  while (!watch.over()) {
    int looked = 0;
    BOOST_TEST(watch.until([&] { return ++looked > 200; }));
    BOOST_REQUIRE(++looks < 1000);
  }
  watch.begin_round();
  BOOST_TEST(!watch.over());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::vhost
