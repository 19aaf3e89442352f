// What is wrong on the control socket is answered or ends the connection; a case's name says the rule.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "tests/guest/control/fsd_process.h"
#include "vmm/sys/memfd.h"
#include "vmm/sys/socket.h"

namespace turnbox::control {
namespace {

const std::string kInfo = R"({"jsonrpc":"2.0","id":"again","method":"fs.info","params":{}})"
                          "\n";

struct Fixture {
  Daemon daemon;
  Raw raw{std::move(daemon.socket)};

  // fsd still answers, and nothing else than this answer waits.
  void check_alive() {
    raw.send(kInfo);
    const auto answer = raw.receive();
    BOOST_REQUIRE(answer.is_object());
    BOOST_TEST(answer.at("id") == "again");
    BOOST_TEST(answer.at("result").at("version") == 1);
  }
  int open_fds() const {
    const auto path = "/proc/" + std::to_string(daemon.process.pid()) + "/fd";
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(path), {}));
  }
};

std::string call(std::string_view method, std::string_view params, int fds = 0) {
  return R"({"jsonrpc":"2.0","id":1,"method":")" + std::string(method) + R"(","params":)" +
         std::string(params) + (fds > 0 ? ",\"fds\":" + std::to_string(fds) : "") + "}\n";
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(hostile_control, Fixture)

BOOST_AUTO_TEST_CASE(garbage_is_a_parse_error) {
  for (const std::string line : {"garbage\n", "\n", "{\n", "{\"a\":\"\xff\"}\n", "{} {}\n"}) {
    raw.send(line);
    BOOST_TEST(raw.code() == kParseError, line);
  }
  raw.send(std::string(2000, '[') + "\n");
  BOOST_TEST(raw.code() == kParseError);
  check_alive();
}

BOOST_AUTO_TEST_CASE(the_envelope_is_checked) {
  for (const char* line :
       {"[]", "1", "null", "{}", R"({"jsonrpc":"1.0","id":1,"method":"fs.info"})",
        R"({"id":1,"method":"fs.info"})", R"({"jsonrpc":"2.0","method":"fs.info"})",
        R"({"jsonrpc":"2.0","id":null,"method":"fs.info"})",
        R"({"jsonrpc":"2.0","id":{},"method":"fs.info"})", R"({"jsonrpc":"2.0","id":1})",
        R"({"jsonrpc":"2.0","id":1,"method":7})", R"({"jsonrpc":"2.0","id":1,"method":"fs.info","x":1})",
        R"({"jsonrpc":"2.0","id":1,"method":"fs.info","fds":1})",
        R"({"jsonrpc":"2.0","id":1,"method":"fs.info","fds":-1})"}) {
    raw.send(std::string(line) + "\n");
    BOOST_TEST(raw.code() == kInvalidRequest, line);
  }
  check_alive();
}

BOOST_AUTO_TEST_CASE(an_unknown_method_is_32601) {
  raw.send(call("fs.format", "{}") + call("", "{}") + call(std::string(100'000, 'm'), "{}"));
  for (int i = 0; i < 3; ++i) BOOST_TEST(raw.code() == kMethodNotFound);
  check_alive();
}

BOOST_AUTO_TEST_CASE(bad_parameters_are_32602) {
  for (const auto& line :
       {call("fs.info", "[]"), call("fs.info", "{\"x\":1}"), call("turn.begin", "{}"),
        call("stage.begin", R"({"turn":1,"stage":"run"})"), call("snapshot.release", R"({"snapshot":-1})"),
        call("snapshot.release", R"({"snapshot":1e3})"), call("snapshot.digest", R"({"snapshot":1})"),
        call("turn.end", R"({"turn":"x","status":"fine"})"),
        call("event.append", R"({"turn":"x","event":[]})"),
        call("fs.import", R"({"target":"workspace","more":false})"),
        call("snapshot.objects", R"({"snapshot":1,"of":"workspace"})")}) {
    raw.send(line);
    BOOST_TEST(raw.code() == kInvalidParams, line);
  }
  check_alive();
}

BOOST_AUTO_TEST_CASE(what_does_not_exist_is_32001) {
  for (const auto& line :
       {call("snapshot.release", R"({"snapshot":9})"),
        call("snapshot.digest", R"({"snapshot":9,"of":"workspace"})"),
        call("snapshot.diff", R"({"from":9,"to":9})"), call("events.read", R"({"turn":"x"})"),
        call("stage.seal", R"({"turn":"x","stage":"run"})"),
        call("turn.end", R"({"turn":"x","status":"failed"})"),
        call("event.append", R"({"turn":"x","event":{}})")}) {
    raw.send(line);
    BOOST_TEST(raw.code() == kNotFound, line);
  }
  raw.send(call("snapshot.objects", R"({"snapshot":9,"of":"workspace","next":true})"));
  BOOST_TEST(raw.code() == kConflict);
  check_alive();
}

BOOST_AUTO_TEST_CASE(a_line_over_1_mib_is_refused_once_and_skipped) {
  raw.send(std::string(kMaxLine + 5, ' ') + "\n" + kInfo);
  BOOST_TEST(raw.code() == kInvalidRequest);
  BOOST_TEST(raw.receive().at("id") == "again");
  for (int i = 0; i < 3; ++i) raw.send(std::string(kMaxLine, 'x'));
  BOOST_TEST(raw.code() == kInvalidRequest);
  raw.send("\n");
  check_alive();
}

BOOST_AUTO_TEST_CASE(a_memfd_that_could_still_change_is_refused) {
  const sys::Fd unsealed = sys::make_memfd("unsealed", 4096).value();
  raw.send(call("fs.import", R"({"target":"workspace","more":false})", 1), {unsealed.get()});
  BOOST_TEST(raw.code() == kInvalidParams);
  const sys::Fd null = sys::open_fd("/dev/null", O_RDONLY).value();
  raw.send(call("fs.import", R"({"target":"workspace","more":false})", 1), {null.get()});
  BOOST_TEST(raw.code() == kInvalidParams);
  check_alive();
}

BOOST_AUTO_TEST_CASE(a_memfd_over_the_limit_is_refused) {
  const sys::Fd huge = sys::make_memfd("huge", kMaxBulk + 1).value();
  BOOST_REQUIRE(sys::seal_memfd(huge.get()));
  raw.send(call("fs.import", R"({"target":"workspace","more":false})", 1), {huge.get()});
  BOOST_TEST(raw.code() == kLimit);
  check_alive();
}

BOOST_AUTO_TEST_CASE(broken_import_streams_are_refused) {
  for (const std::string& bytes : {std::string(), std::string("TBIMPRT2"), std::string("TBIMPRT1z"),
                                   std::string("TBIMPRT1d") + std::string(35, '\xff')}) {
    const sys::Fd file = sys::memfd_with("broken", sys::as_bytes(bytes)).value();
    raw.send(call("fs.import", R"({"target":"workspace","more":false})", 1), {file.get()});
    BOOST_TEST(raw.code() == kInvalidParams, bytes);
  }
  check_alive();
}

BOOST_AUTO_TEST_CASE(surplus_descriptors_are_closed) {
  check_alive();
  const int before = open_fds();
  const sys::Fd null = sys::open_fd("/dev/null", O_RDONLY).value();
  raw.send(call("fs.info", "{}"), std::vector<int>(8, null.get()));  // not announced
  BOOST_TEST(raw.code() == 0);
  raw.send(call("fs.info", "{}", 3), std::vector<int>(3, null.get()));  // announced, but not wanted
  BOOST_TEST(raw.code() == kInvalidParams);
  raw.send(call("nonsense", "{}", 3), std::vector<int>(3, null.get()));
  BOOST_TEST(raw.code() == kMethodNotFound);
  check_alive();
  BOOST_TEST(open_fds() == before);
}

BOOST_AUTO_TEST_CASE(descriptors_without_end_cut_the_connection) {
  const sys::Fd null = sys::open_fd("/dev/null", O_RDONLY).value();
  raw.send("{", std::vector<int>(30, null.get()));
  raw.send(" ", std::vector<int>(30, null.get()));
  BOOST_TEST(raw.receive().is_null());
  const auto ended = daemon.process.wait_for(std::chrono::seconds(30));
  BOOST_REQUIRE(ended.has_value());
  BOOST_TEST(!ended->signalled);
  BOOST_TEST(ended->code == 1);
}

BOOST_AUTO_TEST_CASE(a_closed_control_socket_ends_the_daemon) {
  check_alive();
  raw.send("{\"half\":");
  raw.close();
  const auto ended = daemon.process.wait_for(std::chrono::seconds(30));
  BOOST_REQUIRE(ended.has_value());
  BOOST_TEST(!ended->signalled);
  BOOST_TEST(ended->code == 0);
}

BOOST_AUTO_TEST_CASE(questions_are_answered_in_order_for_a_peer_that_reads_late) {
  std::string many;
  constexpr int kQuestions = 20'000;
  for (int i = 0; i < kQuestions; ++i) {
    many += R"({"jsonrpc":"2.0","id":)" + std::to_string(i) +
            R"(,"method":"fs.stats","params":{}})"
            "\n";
  }
  // In a process of its own, since fsd stops reading while its answers are not read.
  const pid_t sender = ::fork();
  if (sender == 0) {
    raw.send(many);
    ::_exit(0);
  }
  for (int i = 0; i < kQuestions; ++i) BOOST_REQUIRE(raw.receive().at("id").as_int64() == i);
  ::waitpid(sender, nullptr, 0);
  check_alive();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::control
