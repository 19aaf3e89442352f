// The second control door: an operator's connection may less than the owner's, and never ends anything but
// itself.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "fs/control/operators.h"
#include "tests/guest/control/fsd_process.h"
#include "vmm/sys/memfd.h"
#include "vmm/sys/socket.h"

namespace turnbox::control {
namespace {

constexpr char kTurn[] = "01JDRY0000000000000000000A";

struct Fixture {
  Daemon daemon{{"--control-uid", std::to_string(::geteuid())}};
  Client owner = daemon.client();

  Raw raw_operator() const { return Raw(sys::connect_unix(daemon.operators_socket()).value()); }
  Client operator_client() const {
    return Client(sys::connect_unix(daemon.operators_socket()).value(), std::chrono::seconds(60));
  }
  void begin_turn() {
    BOOST_REQUIRE(owner.turn_begin({.turn = kTurn,
                                    .demand = "run-1",
                                    .thread = "main",
                                    .thread_seq = 1,
                                    .tier = "emulated",
                                    .inputs = {}}));
  }
};

std::string call(std::string_view method, std::string_view params, int fds = 0) {
  return R"({"jsonrpc":"2.0","id":1,"method":")" + std::string(method) + R"(","params":)" +
         std::string(params) + (fds > 0 ? ",\"fds\":" + std::to_string(fds) : "") + "}\n";
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(operators, Fixture)

BOOST_AUTO_TEST_CASE(an_operator_is_answered_beside_the_owner) {
  Client one = operator_client(), two = operator_client();
  BOOST_TEST(one.info().value().workspace_epoch == 1u);
  BOOST_TEST(owner.info().value().workspace_epoch == 1u);
  BOOST_TEST(two.info().value().workspace_epoch == 1u);
}

BOOST_AUTO_TEST_CASE(the_owners_methods_are_refused_to_an_operator_and_do_nothing) {
  begin_turn();
  Raw raw = raw_operator();
  const sys::Fd piece = sys::memfd_with("piece", sys::as_bytes(std::string_view("TBIMPRT1"))).value();
  const std::string turn = R"({"turn":")" + std::string(kTurn) + "\"";
  raw.send(call("fs.import", R"({"target":"workspace","more":true})", 1), {piece.get()});
  raw.send(call("turn.begin",
                turn + R"(,"demand":"x","thread":"t","thread_seq":1,"tier":"emulated","inputs":[]})"));
  raw.send(call("stage.begin", turn + R"(,"stage":"run"})"));
  raw.send(call("stage.seal", turn + R"(,"stage":"run"})"));
  raw.send(call("event.append", turn + R"(,"event":{}})"));
  raw.send(call("turn.end", turn + R"(,"status":"failed"})"));
  raw.send(call("workspace.epoch", "{}"));
  for (int i = 0; i < 7; ++i) BOOST_TEST(raw.code() == kRefused);
  BOOST_TEST(owner.info().value().workspace_epoch == 1u);
  BOOST_TEST(owner.stage_begin(kTurn, "run").value() == "01-run");
}

BOOST_AUTO_TEST_CASE(an_operator_cannot_release_the_turns_snapshots) {
  begin_turn();
  Raw raw = raw_operator();
  raw.send(call("snapshot.release", R"({"snapshot":1})"));
  BOOST_TEST(raw.code() == kRefused);
  BOOST_TEST(owner.digest(1, "workspace").has_value());
}

BOOST_AUTO_TEST_CASE(an_operator_that_breaks_its_protocol_ends_itself_only) {
  const sys::Fd null = sys::open_fd("/dev/null", O_RDONLY).value();
  Client other = operator_client();
  for (int i = 0; i < 40; ++i) {
    Raw raw = raw_operator();
    raw.send("{", std::vector<int>(30, null.get()));
    raw.send(" ", std::vector<int>(30, null.get()));
    BOOST_TEST(raw.receive().is_null());
  }
  Raw garbage = raw_operator();
  garbage.send("garbage\n" + std::string(kMaxLine + 5, 'x') + "\n");
  BOOST_TEST(garbage.code() == kParseError);
  BOOST_TEST(garbage.code() == kInvalidRequest);
  BOOST_TEST(other.info().has_value());
  BOOST_TEST(owner.info().has_value());
}

BOOST_AUTO_TEST_CASE(one_operator_more_than_sixteen_is_told_so_and_the_next_is_served_when_one_has_gone) {
  std::vector<Client> served;
  for (size_t i = 0; i < kMostOperators; ++i) {
    served.push_back(operator_client());
    BOOST_REQUIRE(served.back().info().has_value());
  }
  for (int i = 0; i < 100; ++i) {
    Raw more = raw_operator();
    BOOST_REQUIRE(more.code() == kLimit);
    BOOST_REQUIRE(more.receive().is_null());
  }
  BOOST_TEST(owner.info().has_value());
  served.pop_back();
  // The one that left is noticed before the one that comes, or else this one is told the limit: ask until
  // served.
  while (!operator_client().info()) {
  }
  BOOST_TEST(owner.info().has_value());
}

BOOST_AUTO_TEST_CASE(connections_that_come_and_go_leave_no_descriptor) {
  const auto fds = [&] {
    const auto path = "/proc/" + std::to_string(daemon.process.pid()) + "/fd";
    return std::distance(std::filesystem::directory_iterator(path), {});
  };
  BOOST_REQUIRE(owner.info().has_value());
  const auto before = fds();
  for (int i = 0; i < 500; ++i) BOOST_REQUIRE(sys::connect_unix(daemon.operators_socket()).has_value());
  for (int i = 0; i < 20; ++i) {
    Raw raw = raw_operator();
    raw.send(call("snapshot.digest", R"({"snapshot":1,"of":"workspace"})") + "{\"half\":");
  }
  while (!operator_client().info()) {
  }
  while (fds() > before) BOOST_REQUIRE(owner.info().has_value());
  BOOST_TEST(fds() == before);
}

BOOST_AUTO_TEST_CASE(an_operator_that_goes_while_its_answer_is_made_takes_nothing_along) {
  begin_turn();
  for (int i = 0; i < 50; ++i) {
    Raw raw = raw_operator();
    raw.send(call("snapshot.digest", R"({"snapshot":1,"of":"workspace"})"));
  }
  BOOST_TEST(owner.digest(1, "workspace").has_value());
}

BOOST_AUTO_TEST_CASE(an_operators_stream_does_not_hold_up_the_owners) {
  begin_turn();
  Client other = operator_client();
  BOOST_REQUIRE(other.objects_piece(1, "workspace", {}, true).has_value());
  const auto mine = owner.objects_piece(1, "workspace", {}, true);
  BOOST_REQUIRE(mine.has_value());
  BOOST_TEST(other.digest(1, "workspace").has_value());
  BOOST_TEST(owner.digest(1, "workspace").has_value());
}

BOOST_AUTO_TEST_CASE(another_user_is_refused, *boost::unit_test::precondition([](auto) {
                       return boost::test_tools::assertion_result(::geteuid() == 0);
                     })) {
  // As the mode of the socket would let them in.
  BOOST_REQUIRE(::chmod(daemon.operators_socket().c_str(), 0666) == 0);
  BOOST_REQUIRE(::chmod(daemon.dir.c_str(), 0755) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) ::_exit(3);
    auto socket = sys::connect_unix(daemon.operators_socket());
    if (!socket) ::_exit(4);
    Raw raw(std::move(*socket));
    raw.send(call("fs.info", "{}"));
    ::_exit(raw.code() == kRefused ? 0 : 5);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  BOOST_TEST(status == 0);
  BOOST_TEST(owner.info().has_value());
}

BOOST_AUTO_TEST_CASE(the_owners_end_ends_all) {
  Client other = operator_client();
  BOOST_REQUIRE(other.info().has_value());
  { const Client gone = std::move(owner); }
  const auto ended = daemon.process.wait_for(std::chrono::seconds(30));
  BOOST_REQUIRE(ended.has_value());
  BOOST_TEST(ended->code == 0);
  BOOST_TEST(!other.info().has_value());
}

BOOST_AUTO_TEST_SUITE_END()

// A stored version that is looked at has no guest.
BOOST_AUTO_TEST_CASE(fsd_serves_without_devices) {
  Daemon daemon({}, false);
  Client owner = daemon.client();
  BOOST_TEST(owner.info().value().workspace_epoch == 1u);
  BOOST_TEST(owner.stats().value().empty());
}

}  // namespace turnbox::control
