// The fixture of the hostile cases: an echo daemon with a front end on it, and what every case asks at its
// end.
#pragma once

#include <boost/test/unit_test.hpp>

#include "tests/guest/vhost/echo_daemon.h"
#include "tests/support/fake_front_end.h"

namespace turnbox::vhost {

using support::FakeFrontEnd;
using support::FrontEndOptions;

struct Running {
  explicit Running(FrontEndOptions options = {.queues = 2, .queue_size = 64}, EchoDaemon::Setup setup = {})
      : daemon(std::move(setup)), fe(daemon.path(), options) {
    fe.handshake();
  }

  bool answers(unsigned queue) {
    return sys::as_text(fe.request(queue, sys::as_bytes("word"), 64).bytes) == "word";
  }

  // The connection stands and both queues serve.
  void check_served() {
    BOOST_TEST(answers(0));
    BOOST_TEST(answers(1));
  }

  // Lets the daemon's loop turn until it is so: queues are served in no particular order.
  template <typename What>
  bool comes_true(What what) {
    const auto end = std::chrono::steady_clock::now() + support::kDeadline;
    while (!what()) {
      if (std::chrono::steady_clock::now() > end) return false;
      daemon.counters();
    }
    return true;
  }
  bool used_reaches(unsigned queue, uint16_t index) {
    return comes_true([&] { return fe.ring(queue).used_idx() == index; });
  }
  bool chains_reach(uint64_t count) {
    return comes_true([&] { return daemon.counters().chains == count; });
  }

  // Takes every notification that is out. A used entry is seen before its notification: the daemon's loop is
  // passed once, so that none is still to come.
  void silence(unsigned queue) {
    daemon.counters();
    while (support::signalled(fe.ring(queue).call_fd(), support::Deadline(0))) continue;
  }

  // Queue 0, and nothing else, broke: told on the error descriptor, counted; it works again after a restart.
  void check_broke_queue_0_only() {
    BOOST_TEST(support::signalled(fe.ring(0).err_fd(), support::kDeadline));
    BOOST_TEST(daemon.counters().queue_faults == 1U);
    BOOST_TEST(answers(1));
    fe.post(0, sys::as_bytes("dead"), 64);
    fe.ring(0).kick();
    BOOST_TEST(!fe.next(0, support::kQuiet));
    BOOST_TEST(daemon.counters().queue_faults == 1U);
  }

  EchoDaemon daemon;
  FakeFrontEnd fe;
};

// After whatever one front end did, the daemon takes another one and serves it.
inline void check_next_client(EchoDaemon& daemon) {
  FakeFrontEnd fe(daemon.path(), {.queues = 2});
  fe.handshake();
  BOOST_TEST(sys::as_text(fe.request(0, sys::as_bytes("next"), 64).bytes) == "next");
}

}  // namespace turnbox::vhost
