#include "vmm/guest/request.h"

#include <boost/test/unit_test.hpp>

#include "vmm/guest/launch.h"

using namespace turnbox::guest;

namespace {

std::string error_of(std::string_view line) {
  auto request = parse_request(line);
  return request ? "accepted" : request.error().text;
}

const std::string kGood =
    R"({"op":"exec","exec":"01-run.a_B","argv":["sh",{"b16":"ff41"}],"env":[["A","1"],["B",""]],)"
    R"("cwd":"/workspace","uid":1000,"gid":100,"timeout_ms":1500})";

std::string replaced(std::string_view what, std::string_view with) {
  std::string text = kGood;
  const size_t at = text.find(what);
  BOOST_REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), with);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(request)

BOOST_AUTO_TEST_CASE(exec_with_every_member) {
  auto request = parse_request(kGood);
  BOOST_REQUIRE(request);
  const auto& exec = std::get<Exec>(*request);
  BOOST_TEST(exec.id == "01-run.a_B");
  BOOST_TEST(exec.argv == (std::vector<std::string>{"sh",
                                                    "\xff"
                                                    "A"}),
             boost::test_tools::per_element());
  BOOST_TEST(exec.env == (std::vector<std::string>{"A=1", "B="}), boost::test_tools::per_element());
  BOOST_TEST(exec.cwd == "/workspace");
  BOOST_TEST(exec.uid == 1000U);
  BOOST_TEST(exec.gid == 100U);
  BOOST_TEST(exec.timeout->count() == 1500);
}

BOOST_AUTO_TEST_CASE(time_out_may_be_absent) {
  auto request = parse_request(replaced(R"(,"timeout_ms":1500)", ""));
  BOOST_REQUIRE(request);
  BOOST_TEST(!std::get<Exec>(*request).timeout);
}

BOOST_AUTO_TEST_CASE(the_other_operations) {
  BOOST_TEST(std::get<Hello>(*parse_request(R"({"op":"hello","clock_ns":"1795955021000000001"})")).clock_ns ==
             1795955021000000001);
  BOOST_TEST(std::get<Kill>(*parse_request(R"({"op":"kill","exec":"a","signal":15})")).signal == 15);
  BOOST_TEST(std::get<End>(*parse_request(R"({"op":"end","exec":"a"})")).id == "a");
  BOOST_TEST(std::get<Flush>(*parse_request(R"({"op":"flush","deadline_ms":5000})")).deadline.count() ==
             5000);
  BOOST_TEST(std::get<Rebind>(*parse_request(R"({"op":"rebind","epoch":2})")).epoch == 2U);
  BOOST_TEST(std::holds_alternative<PowerOff>(*parse_request(R"({"op":"poweroff"})")));
}

BOOST_AUTO_TEST_CASE(errors_name_the_member) {
  BOOST_TEST(error_of(replaced("\"01-run.a_B\"", "\"a/b\"")).find("exec is not") == 0U);
  BOOST_TEST(error_of(replaced("\"01-run.a_B\"", "\"\"")).find("exec is not") == 0U);
  BOOST_TEST(error_of(replaced("1000", "-1")).find("uid is not") == 0U);
  BOOST_TEST(error_of(replaced("1000", "4294967295")).find("uid is not") == 0U);
  BOOST_TEST(error_of(replaced("\"/workspace\"", "\"workspace\"")).find("cwd is not") == 0U);
  BOOST_TEST(error_of(replaced("\"sh\"", "\"s\\u0000h\"")).find("argv holds a NUL") == 0U);
  BOOST_TEST(error_of(replaced("\"sh\"", "7")).find("argv is not a string") == 0U);
  BOOST_TEST(error_of(replaced("ff41", "fF41")).find("argv holds wrong hex") == 0U);
  BOOST_TEST(error_of(replaced("\"A\"", "\"A=\"")).find("env holds a name") == 0U);
  BOOST_TEST(error_of(replaced("[\"B\",\"\"]", "[\"B\"]")).find("env holds something") == 0U);
  BOOST_TEST(error_of(replaced("1500", "0")).find("timeout_ms is not") == 0U);
  BOOST_TEST(error_of(replaced("\"gid\":100", "\"gidd\":100")) == "unknown member gidd");
  BOOST_TEST(error_of(R"({"op":"exec","exec":"a","argv":[]})").find("argv is not an array with") == 0U);
  BOOST_TEST(error_of(R"({"op":"reboot"})") == "unknown op reboot");
  BOOST_TEST(error_of(R"([])") == "the request is not a JSON object");
  BOOST_TEST(error_of(R"({"op":"poweroff","now":1})") == "unknown member now");
  BOOST_TEST(error_of(R"({"op":"hello","clock_ns":"-5"})").find("clock_ns") == 0U);
  BOOST_TEST(error_of(R"({"op":"hello","clock_ns":"5x"})").find("clock_ns") == 0U);
  BOOST_TEST(error_of(R"({"op":"kill","exec":"a","signal":65})").find("signal") == 0U);
}

BOOST_AUTO_TEST_CASE(refusals_are_one_line) {
  BOOST_TEST(refusal_line("invalid", "a\nb") ==
             "{\"ok\":false,\"error\":\"invalid\",\"text\":\"a\\u000ab\"}\n");
}

BOOST_AUTO_TEST_CASE(candidates_follow_path) {
  using Strings = std::vector<std::string>;
  BOOST_TEST(candidates("./x", {"PATH=/bin"}) == Strings{"./x"}, boost::test_tools::per_element());
  BOOST_TEST(candidates("x", {"PATH=/a:/b/c"}) == (Strings{"/a/x", "/b/c/x"}),
             boost::test_tools::per_element());
  BOOST_TEST(candidates("x", {"PATH=:/b"}) == (Strings{"./x", "/b/x"}), boost::test_tools::per_element());
  BOOST_TEST(candidates("x", {"PATH="}) == Strings{"./x"}, boost::test_tools::per_element());
  BOOST_TEST(candidates("x", {}).size() == 6U);
  BOOST_TEST(candidates("", {}).empty());
}

BOOST_AUTO_TEST_SUITE_END()
