// Real commands through a real Server, once with cgroup v2 (where this host lets us) and once by parentage.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "tests/unit/guest/server_fixture.h"
#include "vmm/guest/exec_session.h"

using namespace turnbox::guest;
using namespace turnbox::guest::test;
namespace data = boost::unit_test::data;

namespace {

std::vector<bool> kinds() {
  if (ServerProcess::best_kind() == ProcessSets::Kind::cgroup) return {true, false};
  return {false};
}
const std::vector<bool> kKinds = kinds();

Outcome run(ServerProcess& server, const std::string& request) {
  Peer peer = server.connect();
  peer.send(request);
  const std::string answer = peer.line();
  BOOST_REQUIRE_MESSAGE(answer.starts_with("{\"ok\":true,\"pid\":"), answer);
  return server.collect(peer);
}

std::string refusal(ServerProcess& server, const std::string& argv,
                    const std::string& more = "\"cwd\":\"/\"") {
  return server.ask("{\"op\":\"exec\",\"exec\":\"r\",\"argv\":" + argv +
                    ",\"env\":[[\"PATH\",\"/usr/bin:/bin\"]],\"uid\":" + std::to_string(::getuid()) +
                    ",\"gid\":" + std::to_string(::getgid()) + "," + more + "}");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(exec)

BOOST_DATA_TEST_CASE(streams_stay_apart_and_exit_comes_last, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  const Outcome outcome = run(server, ServerProcess::sh("a", "printf out; printf err >&2; exit 7"));
  BOOST_TEST(outcome.out == "out");
  BOOST_TEST(outcome.err == "err");
  BOOST_TEST(outcome.exit == R"({"exit":7})");
  BOOST_TEST(outcome.closings == 2);
}

BOOST_DATA_TEST_CASE(environment_and_directory_are_what_was_asked, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  Peer peer = server.connect();
  peer.send(
      "{\"op\":\"exec\",\"exec\":\"e\",\"argv\":[\"env\"],\"env\":[[\"PATH\",\"/usr/bin:/"
      "bin\"],[\"ODD\",{\"b16\":\"ff\"}]],"
      "\"cwd\":\"/usr\",\"uid\":" +
      std::to_string(::getuid()) + ",\"gid\":" + std::to_string(::getgid()) + "}\n");
  BOOST_TEST(peer.line().find("\"ok\":true") != std::string::npos);
  BOOST_TEST(server.collect(peer).out == "PATH=/usr/bin:/bin\nODD=\xff\n");
  BOOST_TEST(run(server, ServerProcess::sh("p", "pwd; umask; ls /proc/self/fd | tr '\\n' ' '"))
                 .out.starts_with("/tmp\n0022\n0 1 2 3 "));
}

BOOST_DATA_TEST_CASE(ten_mebibytes_are_exact, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  // Bytes that a shell pipe makes and this test can recompute: 64-bit counters.
  const Outcome outcome =
      run(server,
          ServerProcess::sh("big", "seq 1 1500000 | head -c 10485760; seq 1 200000 | head -c 1000000 >&2"));
  std::string expected;
  for (int i = 1; expected.size() < 10'485'760; ++i) expected += std::to_string(i) + "\n";
  BOOST_TEST((outcome.err == expected.substr(0, 1'000'000)));
  expected.resize(10'485'760);
  BOOST_TEST((outcome.out == expected));
  BOOST_TEST(outcome.exit == R"({"exit":0})");
}

BOOST_DATA_TEST_CASE(stdin_reaches_the_command_and_ends, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  Peer peer = server.connect();
  std::string input;
  for (int i = 0; input.size() < 200'000; ++i) input += std::to_string(i) + ";";
  peer.send(ServerProcess::sh("in", "cat"));
  for (size_t at = 0; at < input.size(); at += 50'000)
    peer.send_frame(FrameType::stdin_data, input.substr(at, 50'000));
  peer.send_frame(FrameType::stdin_data, "");
  BOOST_TEST(peer.line().find("\"ok\":true") != std::string::npos);
  const Outcome outcome = server.collect(peer);
  BOOST_TEST((outcome.out == input));
  BOOST_TEST(outcome.exit == R"({"exit":0})");
}

BOOST_DATA_TEST_CASE(stdin_that_nobody_reads_is_dropped, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  Peer peer = server.connect();
  peer.send(ServerProcess::sh("deaf", "exec <&-; echo closed; sleep 0.2; echo done"));
  BOOST_TEST(peer.line().find("\"ok\":true") != std::string::npos);
  BOOST_TEST(peer.frame()->second == "closed\n");
  for (int i = 0; i < 20; ++i) peer.send_frame(FrameType::stdin_data, std::string(60'000, 'x'));
  BOOST_TEST(server.collect(peer).out == "done\n");
}

BOOST_DATA_TEST_CASE(a_peer_that_does_not_read_stops_the_command, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  Peer peer = server.connect();
  peer.send(ServerProcess::sh(
      "slow", "i=0; while [ $i -lt 40 ]; do head -c 100000 /dev/zero; i=$((i+1)); echo $i >&2; done"));
  // Meanwhile others are served.
  BOOST_TEST(run(server, ServerProcess::sh("other", "echo hi")).out == "hi\n");
  BOOST_TEST(peer.line().find("\"ok\":true") != std::string::npos);
  BOOST_TEST(server.collect(peer).out.size() == 4'000'000U);
}

BOOST_DATA_TEST_CASE(signals_are_reported, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  BOOST_TEST(run(server, ServerProcess::sh("s", "kill -SEGV $$")).exit == R"({"signal":11})");
  BOOST_TEST(run(server, ServerProcess::sh("k", "kill -KILL $$")).exit == R"({"signal":9})");
}

BOOST_DATA_TEST_CASE(kill_reaches_every_process, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  Peer peer = server.connect();
  peer.send(
      ServerProcess::sh("k",
                        "trap 'echo shell; exit 3' TERM; sh -c \"trap 'echo child; exit 0' TERM; echo ready; "
                        "while :; do sleep 0.05; done\" & wait; wait"));
  peer.line();
  BOOST_TEST(peer.frame()->second == "ready\n");
  BOOST_TEST(server.ask(R"({"op":"kill","exec":"k","signal":15})") == R"({"ok":true})");
  const Outcome outcome = server.collect(peer);
  BOOST_TEST(outcome.out.find("shell") != std::string::npos);
  BOOST_TEST(outcome.exit == R"({"exit":3})");
}

BOOST_DATA_TEST_CASE(time_out_kills_a_daemon_that_hid_itself, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  const std::string mark = "81" + std::to_string(::getpid()) + (cgroup ? "1" : "2");
  const Outcome outcome = run(
      server, ServerProcess::sh("t", "setsid sh -c 'setsid sleep " + mark + " &' ; echo up; sleep " + mark,
                                ",\"timeout_ms\":700"));
  BOOST_TEST(outcome.out == "up\n");
  BOOST_TEST(outcome.exit == R"({"signal":9,"timed_out":true})");
  BOOST_TEST(all_gone(mark));
}

BOOST_DATA_TEST_CASE(what_outlives_the_command_is_killed_and_its_output_read, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  const std::string mark = "82" + std::to_string(::getpid()) + (cgroup ? "1" : "2");
  // The daemon holds stdout: without the kill the exit frame would never come.
  const Outcome outcome = run(
      server, ServerProcess::sh("d", "setsid sh -c 'echo daemon; sleep " + mark + "' & sleep 0.3; exit 5"));
  BOOST_TEST(outcome.out == "daemon\n");
  BOOST_TEST(outcome.exit == R"({"exit":5})");
  BOOST_TEST(all_gone(mark));
}

BOOST_DATA_TEST_CASE(a_fork_storm_is_killed, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  const std::string mark = "83" + std::to_string(::getpid()) + (cgroup ? "1" : "2");
  const Outcome outcome = run(
      server,
      ServerProcess::sh("f", "while :; do setsid sh -c 'sleep " + mark + " & sleep 0.01' & sleep 0.01; done",
                        ",\"timeout_ms\":500"));
  BOOST_TEST(outcome.exit == R"({"signal":9,"timed_out":true})");
  BOOST_TEST(all_gone(mark));
}

BOOST_DATA_TEST_CASE(end_answers_after_the_death_of_all, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  const std::string mark = "84" + std::to_string(::getpid()) + (cgroup ? "1" : "2");
  Peer peer = server.connect();
  peer.send(ServerProcess::sh("e", "setsid sleep " + mark + " & echo up; wait"));
  peer.line();
  BOOST_TEST(peer.frame()->second == "up\n");
  BOOST_TEST(server.ask(R"({"op":"end","exec":"e"})") == R"({"ok":true})");
  BOOST_TEST(all_gone(mark, std::chrono::milliseconds(0)));
  BOOST_TEST(server.collect(peer).exit == R"({"signal":9})");
  BOOST_TEST(server.ask(R"({"op":"end","exec":"e"})").find("\"error\":\"not_found\"") != std::string::npos);
}

BOOST_DATA_TEST_CASE(a_host_that_closes_ends_the_exec, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  for (const bool half : {false, true}) {
    const std::string mark = "85" + std::to_string(::getpid()) + (cgroup ? "1" : "2") + (half ? "1" : "2");
    Peer peer = server.connect();
    peer.send(ServerProcess::sh("c", "setsid sleep " + mark + " & echo up; wait"));
    peer.line();
    BOOST_TEST(peer.frame()->second == "up\n");
    half ? peer.half_close() : peer.close();
    BOOST_TEST(all_gone(mark));
  }
}

BOOST_DATA_TEST_CASE(a_wrong_frame_ends_the_exec, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  std::string id = "w";
  for (const char* bytes : {"\2\0\0\0\0\0\0\0", "\1\1\0\0\0\0\0\0", "\1\0\0\0\0\0\0\1"}) {
    Peer peer = server.connect();
    peer.send(ServerProcess::sh(id += "w", "sleep 100"));
    BOOST_TEST(peer.line().find("\"ok\":true") != std::string::npos);
    peer.send(std::string_view(bytes, kFrameHeaderSize));
    BOOST_TEST(peer.at_end());
  }
}

BOOST_DATA_TEST_CASE(commands_that_cannot_run_say_why, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  auto has = [](const std::string& answer, std::string_view word) {
    return answer.find("\"error\":\"" + std::string(word) + "\"") != std::string::npos;
  };
  BOOST_TEST(has(refusal(server, R"(["no-such-program"])"), "not_found"));
  BOOST_TEST(has(refusal(server, R"(["/no/such/program"])"), "not_found"));
  BOOST_TEST(has(refusal(server, R"([""])"), "not_found"));
  BOOST_TEST(has(refusal(server, R"(["/etc/passwd"])"), "not_executable"));
  BOOST_TEST(has(refusal(server, R"(["/etc"])"), "not_executable"));
  BOOST_TEST(has(refusal(server, R"(["true"])", R"("cwd":"/no/such")"), "invalid"));
  BOOST_TEST(has(refusal(server, R"(["true"])", R"("cwd":"/etc/passwd")"), "invalid"));
  // Afterwards the id is free again.
  BOOST_TEST(run(server, ServerProcess::sh("r", "echo fine")).out == "fine\n");
}

BOOST_DATA_TEST_CASE(scripts_without_a_usable_interpreter_are_not_executable, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  const std::string file = "/tmp/turnbox-guest-script-" + std::to_string(::getpid());
  for (const char* text : {"#!/no/such/interpreter\n", "echo no first line\n"}) {
    BOOST_REQUIRE(turnbox::sys::replace_file(file, text, 0755));
    const std::string answer = refusal(server, "[\"" + file + "\"]");
    BOOST_TEST(answer.find("\"not_executable\"") != std::string::npos, answer);
  }
  ::unlink(file.c_str());
}

BOOST_DATA_TEST_CASE(an_exec_id_is_used_once_at_a_time, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  Peer peer = server.connect();
  peer.send(ServerProcess::sh("once", "echo up; cat"));
  peer.line();
  BOOST_TEST(peer.frame()->second == "up\n");
  Peer second = server.connect();
  second.send(ServerProcess::sh("once", "true"));
  BOOST_TEST(second.line().find("\"error\":\"conflict\"") != std::string::npos);
  BOOST_TEST(second.at_end());
}

BOOST_DATA_TEST_CASE(rebind_is_refused_while_execs_run, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  BOOST_TEST(server.ask(R"({"op":"rebind","epoch":2})") == R"({"ok":true})");
  BOOST_TEST(server.ask(R"({"op":"rebind","epoch":10})").find("no workspace epoch 10") != std::string::npos);
  Peer peer = server.connect();
  peer.send(ServerProcess::sh("held", "echo up; cat"));
  peer.line();
  BOOST_TEST(peer.frame()->second == "up\n");
  const std::string answer = server.ask(R"({"op":"rebind","epoch":3})");
  BOOST_TEST(answer.find("\"error\":\"conflict\"") != std::string::npos);
  BOOST_TEST(answer.find("held") != std::string::npos);
}

BOOST_DATA_TEST_CASE(hello_flush_and_nonsense, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  BOOST_TEST(
      server.ask(R"({"op":"hello","clock_ns":"5"})").starts_with(R"({"ok":true,"version":1,"kernel":")"));
  BOOST_TEST(server.ask(R"({"op":"flush","deadline_ms":5000})") == R"({"ok":true,"flushed":true})");
  BOOST_TEST(server.ask("nonsense").find("\"error\":\"invalid\"") != std::string::npos);
  BOOST_TEST(server.ask(R"({"op":"kill","exec":"none","signal":9})").find("\"error\":\"not_found\"") !=
             std::string::npos);
  Peer peer = server.connect();
  peer.send(std::string(kMaxLine, ' '));
  BOOST_TEST(peer.line().find("longer than") != std::string::npos);
}

BOOST_DATA_TEST_CASE(a_flush_that_fails_or_hangs_says_so, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  server.make_flush("broken");
  BOOST_TEST(server.ask(R"({"op":"flush","deadline_ms":5000})") == R"({"ok":true,"flushed":false})");
  server.make_flush("stuck");
  Peer slow = server.connect();
  slow.send("{\"op\":\"flush\",\"deadline_ms\":300}\n");
  // Meanwhile others are served, and what they end does not reach the flushing child.
  BOOST_TEST(run(server, ServerProcess::sh("a", "echo hi")).out == "hi\n");
  BOOST_TEST(slow.line() == R"({"ok":true,"flushed":false})");
}

BOOST_DATA_TEST_CASE(power_off_ends_execs_and_the_server, data::make(kKinds), cgroup) {
  ServerProcess server(cgroup);
  const std::string mark = "86" + std::to_string(::getpid()) + (cgroup ? "1" : "2");
  Peer peer = server.connect();
  peer.send(ServerProcess::sh("p", "echo up; sleep " + mark));
  peer.line();
  BOOST_TEST(peer.frame()->second == "up\n");
  BOOST_TEST(server.ask(R"({"op":"poweroff"})") == R"({"ok":true})");
  BOOST_TEST(server.waits_for_exit());
  BOOST_TEST(all_gone(mark));
}

BOOST_AUTO_TEST_SUITE_END()
