// What a well-behaved front end gets: every other case of this suite measures against it.
#include <boost/test/unit_test.hpp>

#include "tests/guest/vhost/echo_daemon.h"
#include "tests/support/fake_front_end.h"

namespace turnbox::vhost {

using support::FakeFrontEnd;

BOOST_AUTO_TEST_SUITE(service)

BOOST_AUTO_TEST_CASE(a_chain_is_answered_with_its_own_bytes) {
  EchoDaemon daemon;
  FakeFrontEnd fe(daemon.path(), {.queues = 2});
  fe.handshake();
  for (unsigned queue : {0U, 1U}) {
    const auto done = fe.request(queue, sys::as_bytes("word"), 100);
    BOOST_TEST(sys::as_text(done.bytes) == "word");
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::vhost
