// docs/hostile-guest, section 1, rule 11: one front end, its end, and who else is at the door.
#include <unistd.h>

#include "tests/guest/vhost/running.h"

namespace turnbox::vhost {

BOOST_AUTO_TEST_SUITE(peers)

BOOST_AUTO_TEST_CASE(a_second_client_is_refused_and_the_first_is_served_on) {
  Running at;
  for (int i = 1; i <= 3; ++i) {
    FakeFrontEnd second(at.daemon.path());
    BOOST_TEST(second.closed());
    BOOST_TEST(at.daemon.counters().peers_refused == static_cast<unsigned>(i));
  }
  at.check_served();
}

BOOST_AUTO_TEST_CASE(a_peer_of_another_user_is_refused) {
  EchoDaemon daemon({.options = {.peer_uid = ::geteuid() + 1, .accept_again = true}});
  FakeFrontEnd fe(daemon.path());
  BOOST_TEST(fe.closed());
  BOOST_TEST(daemon.counters().peers_refused == 1U);
  BOOST_TEST(daemon.counters().messages == 0U);
}

BOOST_AUTO_TEST_CASE(a_peer_of_the_expected_user_is_served) {
  EchoDaemon daemon({.options = {.peer_uid = ::geteuid(), .accept_again = true}});
  check_next_client(daemon);
}

BOOST_AUTO_TEST_CASE(the_end_of_the_front_end_ends_the_device) {
  EchoDaemon daemon({.options = {.peer_uid = {}, .accept_again = false}});
  {
    FakeFrontEnd fe(daemon.path(), {.queues = 2});
    fe.handshake();
    fe.request(0, sys::as_bytes("word"), 64);
  }
  BOOST_TEST(daemon.gone());
  BOOST_TEST(!sys::connect_unix(daemon.path()));
  BOOST_TEST(daemon.wait_for_resets(1));
}

BOOST_AUTO_TEST_CASE(a_breach_of_the_only_front_end_ends_the_device) {
  EchoDaemon daemon({.options = {.peer_uid = {}, .accept_again = false}});
  FakeFrontEnd fe(daemon.path());
  fe.send(Request::get_features, {}, {}, 2);
  BOOST_TEST(fe.closed());
  BOOST_TEST(daemon.gone());
}

BOOST_AUTO_TEST_CASE(a_disconnect_with_chains_in_flight_frees_them_before_the_reset) {
  EchoDaemon daemon;
  {
    FakeFrontEnd fe(daemon.path(), {.queues = 2});
    fe.handshake();
    for (int i = 0; i < 8; ++i) fe.post(1, sys::as_bytes("hold"), 64);
    while (daemon.counters().chains < 8) continue;
  }
  BOOST_TEST(daemon.wait_for_resets(1));
  const unsigned stops = daemon.inside([](Backend&, EchoDevice& device) { return device.stops; });
  BOOST_TEST(stops == 2U);
  check_next_client(daemon);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::vhost
