#include "broker/exec/guest.h"

#include <sys/eventfd.h>

#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>

#include "tests/unit/exec/fake_guest.h"

namespace turnbox::exec {
namespace {

using namespace std::chrono_literals;
namespace json = boost::json;

Clock::time_point soon() {
  return Clock::now() + 10s;
}
bool never() {
  return false;
}

// A guest that answers every request with these bytes.
FakeGuest answering(std::string bytes) {
  return FakeGuest([bytes](Peer& peer, const json::object&) { peer.say(bytes); });
}

sys::ErrorKind kind_of_rebind(const std::string& answer) {
  FakeGuest guest([answer](Peer& peer, const json::object&) { peer.say(answer); });
  const auto done = rebind(guest.path(), 2, soon());
  return done ? sys::ErrorKind::usage : done.error().kind;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(guest)

BOOST_AUTO_TEST_CASE(hello_hands_over_the_clock_and_tells_the_kernel) {
  FakeGuest guest = answering("{\"ok\":true,\"version\":1,\"kernel\":\"6.1.0-40-cloud-amd64\"}\n");
  const auto kernel = await_guest(guest.path(), soon(), never);
  BOOST_REQUIRE(kernel);
  BOOST_TEST(*kernel == "6.1.0-40-cloud-amd64");
  const auto requests = guest.requests();
  BOOST_REQUIRE(requests.size() == 1U);
  BOOST_TEST(requests[0].at("op").as_string() == "hello");
  const std::string ns(requests[0].at("clock_ns").as_string());
  BOOST_TEST(ns.size() == 19U);  // nanoseconds, until the year 2286
  BOOST_TEST(ns.find_first_not_of("0123456789") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(hello_tries_again_until_somebody_listens) {
  FakeGuest guest([](Peer& peer, const json::object&) { peer.say("{\"ok\":true,\"version\":1}\n"); }, 3);
  BOOST_TEST(await_guest(guest.path(), soon(), never).has_value());
}

BOOST_AUTO_TEST_CASE(hello_gives_up_when_told_to) {
  FakeGuest guest([](Peer&, const json::object&) {}, 1'000'000);
  int asked = 0;
  const auto kernel = await_guest(guest.path(), soon(), [&] { return ++asked > 3; });
  BOOST_REQUIRE(!kernel);
  BOOST_TEST((kernel.error().kind == sys::ErrorKind::unavailable));
  BOOST_TEST(asked == 4);
}

BOOST_AUTO_TEST_CASE(hello_ends_at_the_deadline_whatever_the_guest_does) {
  FakeGuest guest([](Peer& peer, const json::object&) { peer.ended(); });  // takes all, answers nothing
  const auto began = Clock::now();
  BOOST_TEST(!await_guest(guest.path(), began + 100ms, never));
  BOOST_TEST((Clock::now() - began < 5s));
}

BOOST_AUTO_TEST_CASE(hello_of_another_version_names_the_remedy) {
  FakeGuest guest = answering("{\"ok\":true,\"version\":2}\n");
  const auto kernel = await_guest(guest.path(), soon(), never);
  BOOST_REQUIRE(!kernel);
  BOOST_TEST((kernel.error().kind == sys::ErrorKind::protocol));
  BOOST_TEST(kernel.error().text.find("turnbox image build") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(missing_socket_is_unavailable_and_not_a_missing_command) {
  const auto done = rebind("/nonexistent/vsock.sock", 2, soon());
  BOOST_REQUIRE(!done);
  BOOST_TEST((done.error().kind == sys::ErrorKind::unavailable));
}

BOOST_AUTO_TEST_CASE(answer_in_pieces_is_put_together) {
  FakeGuest guest([](Peer& peer, const json::object&) {
    for (const char* piece : {"{\"ok\":tr", "ue,\"flushed\"", ":true}", "\n"}) peer.say(piece);
  });
  BOOST_TEST(flush(guest.path(), 5s).value());
}

BOOST_AUTO_TEST_CASE(flush_tells_whether_it_finished) {
  FakeGuest guest = answering("{\"ok\":true,\"flushed\":false}\n");
  BOOST_TEST(!flush(guest.path(), 5s).value());
  BOOST_TEST(guest.requests().at(0).at("deadline_ms").as_int64() == 5000);
}

BOOST_AUTO_TEST_CASE(flush_answer_without_its_word_is_a_breach) {
  FakeGuest guest = answering("{\"ok\":true}\n");
  BOOST_TEST((flush(guest.path(), 5s).error().kind == sys::ErrorKind::protocol));
}

BOOST_AUTO_TEST_CASE(refusals_keep_their_kind) {
  BOOST_TEST((kind_of_rebind("{\"ok\":true}\n") == sys::ErrorKind::usage));  // done
  BOOST_TEST((kind_of_rebind("{\"ok\":false,\"error\":\"conflict\",\"text\":\"run-1\"}\n") ==
              sys::ErrorKind::conflict));
  BOOST_TEST((kind_of_rebind("{\"ok\":false,\"error\":\"invalid\"}\n") == sys::ErrorKind::invalid));
}

BOOST_AUTO_TEST_CASE(answers_that_break_the_format_are_breaches) {
  for (const std::string& answer :
       {std::string("no JSON\n"), std::string("[]\n"), std::string("{}\n"), std::string("{\"ok\":1}\n"),
        std::string("{\"ok\":true}{}\n"), "{\"ok\":" + std::string(20, '[') + std::string(20, ']') + "}\n",
        std::string(kMaxAnswer, ' ') + "{\"ok\":true}\n"}) {
    BOOST_TEST((kind_of_rebind(answer) == sys::ErrorKind::protocol), answer.substr(0, 40));
  }
}

BOOST_AUTO_TEST_CASE(answer_without_an_end_is_unavailable) {
  BOOST_TEST((kind_of_rebind("{\"ok\":true}") == sys::ErrorKind::unavailable));
  BOOST_TEST((kind_of_rebind("") == sys::ErrorKind::unavailable));
}

BOOST_AUTO_TEST_CASE(sentences_of_the_guest_cannot_move_a_cursor) {
  FakeGuest guest = answering("{\"ok\":false,\"error\":\"io\",\"text\":\"a\\u001b[2Jb\\u0007c\\u009bd\\n" +
                              std::string(1000, 'e') + "\"}\n");
  const auto done = rebind(guest.path(), 2, soon());
  BOOST_REQUIRE(!done);
  const std::string& text = done.error().text;
  BOOST_TEST(text.size() < 300U);
  BOOST_TEST(text.find("a [2Jb c  d ") != std::string::npos);
  for (const char byte : text) BOOST_TEST((static_cast<unsigned char>(byte) >= 0x20 && byte != 0x7f));
}

BOOST_AUTO_TEST_CASE(cut_of_a_long_sentence_is_not_inside_a_character) {
  json::object answer{{"text", std::string(199, 'a') + "ä"}};
  BOOST_TEST(clean_text(answer, "text") == std::string(199, 'a'));
  answer["text"] = std::string(198, 'a') + "ä" + "b";
  BOOST_TEST(clean_text(answer, "text") == std::string(198, 'a') + "ä");
}

BOOST_AUTO_TEST_CASE(every_operation_has_its_request) {
  FakeGuest guest = answering("{\"ok\":true}\n");
  BOOST_TEST(rebind(guest.path(), 7, soon()).has_value());
  BOOST_TEST(kill(guest.path(), "x", 15, soon()).has_value());
  BOOST_TEST(end(guest.path(), "x", soon()).has_value());
  BOOST_TEST(power_off(guest.path(), soon()).has_value());
  std::vector<std::string> said;
  for (const auto& request : guest.requests()) said.push_back(json::serialize(request));
  const std::vector<std::string> expected{R"({"op":"rebind","epoch":7})",
                                          R"({"op":"kill","exec":"x","signal":15})",
                                          R"({"op":"end","exec":"x"})", R"({"op":"poweroff"})"};
  BOOST_TEST(said == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(stop_ends_a_wait_for_an_answer) {
  FakeGuest guest([](Peer& peer, const json::object&) { peer.ended(); });
  const sys::Fd stop(::eventfd(1, EFD_CLOEXEC));
  const auto fd = connect_guest(guest.path(), turnbox::guest::kExecPort, {soon()});
  BOOST_REQUIRE(fd);
  const auto answer = read_answer(fd->get(), {soon(), stop.get()});
  BOOST_REQUIRE(!answer);
  BOOST_TEST((answer.error().kind == sys::ErrorKind::unavailable));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::exec
