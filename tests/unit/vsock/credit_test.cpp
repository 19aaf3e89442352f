#include "vmm/vsock/credit.h"

#include <boost/test/unit_test.hpp>

using namespace turnbox::vsock;

BOOST_AUTO_TEST_SUITE(credit)

constexpr uint32_t kBuffer = 256 * 1024;

BOOST_AUTO_TEST_CASE(sending_counts_against_the_window) {
  SendCredit credit;
  BOOST_TEST(credit.free() == 0U);
  BOOST_TEST(credit.update(kBuffer, 0));
  BOOST_TEST(credit.free() == kBuffer);
  credit.sent(1000);
  BOOST_TEST(credit.free() == kBuffer - 1000);
  BOOST_TEST(credit.update(kBuffer, 400));
  BOOST_TEST(credit.in_flight() == 600U);
  BOOST_TEST(credit.free() == kBuffer - 600);
}

BOOST_AUTO_TEST_CASE(sending_goes_on_over_the_wrap_of_the_counters) {
  const uint32_t start = 0xffffffff - 500;
  SendCredit credit(start);
  BOOST_TEST(credit.update(kBuffer, start));
  credit.sent(1000);  // tx_cnt wrapped
  BOOST_TEST(credit.in_flight() == 1000U);
  BOOST_TEST(credit.update(kBuffer, 0xffffffff));
  BOOST_TEST(credit.in_flight() == 500U);
  BOOST_TEST(credit.update(kBuffer, start + 1000));
  BOOST_TEST(credit.in_flight() == 0U);
  BOOST_TEST(credit.free() == kBuffer);
}

BOOST_AUTO_TEST_CASE(fwd_cnt_beyond_what_was_sent_is_a_breach) {
  SendCredit credit;
  BOOST_TEST(credit.update(kBuffer, 0));
  credit.sent(10);
  BOOST_TEST(!credit.update(kBuffer, 11));
  BOOST_TEST(!credit.update(kBuffer, 0x80000000));
  BOOST_TEST(credit.in_flight() == 10U);  // untouched
  BOOST_TEST(credit.update(kBuffer, 10));
}

BOOST_AUTO_TEST_CASE(fwd_cnt_that_lags_is_ignored) {
  SendCredit credit;
  BOOST_TEST(credit.update(kBuffer, 0));
  credit.sent(100'000);
  BOOST_TEST(credit.update(kBuffer, 90'000));
  BOOST_TEST(credit.update(kBuffer, 80'000));
  BOOST_TEST(credit.in_flight() == 10'000U);
}

BOOST_AUTO_TEST_CASE(window_shrunk_below_what_is_in_flight_gives_no_credit) {
  SendCredit credit;
  BOOST_TEST(credit.update(kBuffer, 0));
  credit.sent(100'000);
  BOOST_TEST(credit.update(4096, 0));
  BOOST_TEST(credit.free() == 0U);
  BOOST_TEST(credit.update(4096, 99'000));
  BOOST_TEST(credit.free() == 3096U);
}

BOOST_AUTO_TEST_CASE(window_is_capped_whatever_the_guest_says) {
  SendCredit credit;
  BOOST_TEST(credit.update(0xffffffff, 0));
  BOOST_TEST(credit.free() == SendCredit::kMaxWindow);
}

BOOST_AUTO_TEST_CASE(receiving_beyond_the_buffer_is_a_breach) {
  ReceiveCredit credit(kBuffer);
  BOOST_TEST(credit.receive(kBuffer));
  BOOST_TEST(!credit.receive(1));
  BOOST_TEST(!credit.receive(0xffffffff));
  credit.forward(1);
  BOOST_TEST(credit.receive(1));
  BOOST_TEST(!credit.receive(1));
}

BOOST_AUTO_TEST_CASE(receiving_goes_on_over_the_wrap_of_the_counters) {
  ReceiveCredit credit(kBuffer, 0xffffff00);
  for (int i = 0; i < 10; ++i) {
    BOOST_TEST(credit.receive(kBuffer));
    BOOST_TEST(credit.held() == kBuffer);
    credit.forward(kBuffer);
    BOOST_TEST(credit.held() == 0U);
  }
  BOOST_TEST(credit.fwd_cnt() == 0xffffff00U + 10 * kBuffer);
}

BOOST_AUTO_TEST_CASE(forwarding_more_than_is_held_is_cut_off) {
  ReceiveCredit credit(kBuffer);
  BOOST_TEST(credit.receive(10));
  credit.forward(11);
  BOOST_TEST(credit.fwd_cnt() == 10U);
}

BOOST_AUTO_TEST_CASE(update_is_worth_telling_at_a_quarter) {
  ReceiveCredit credit(kBuffer, 0xfffffff0);
  BOOST_TEST(credit.receive(kBuffer));
  credit.forward(kBuffer / 4 - 1);
  BOOST_TEST(!credit.worth_telling());
  credit.forward(1);
  BOOST_TEST(credit.worth_telling());
  credit.told();
  BOOST_TEST(!credit.worth_telling());
}

BOOST_AUTO_TEST_SUITE_END()
