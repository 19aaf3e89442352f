#include "broker/exec/session.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <thread>

#include "tests/unit/exec/fake_guest.h"
#include "vmm/sys/bytes.h"

namespace turnbox::exec {
namespace {

using namespace std::chrono_literals;
namespace json = boost::json;
using guest::FrameType;
using sys::ErrorKind;

struct Pipe {
  Pipe() {
    int ends[2];
    BOOST_REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    read = sys::Fd(ends[0]);
    write = sys::Fd(ends[1]);
  }
  // All up to the end, on a thread of its own so that the pump is never held up.
  void collect() {
    reader = std::thread([this] {
      char piece[8192];
      for (ssize_t n; (n = ::read(read.get(), piece, sizeof piece)) > 0;)
        heard.append(piece, static_cast<size_t>(n));
    });
  }
  std::string all() {
    write.reset();
    reader.join();
    return heard;
  }
  sys::Fd read, write;
  std::string heard;
  std::thread reader;
};

constexpr std::string_view kAccepted = "{\"ok\":true,\"pid\":42}\n";

ExecSpec spec(std::vector<std::string> argv = {"true"}) {
  return {.exec = "e1", .argv = std::move(argv)};
}

// Runs against a guest that accepts and then does as scripted; no input, output dropped.
sys::Result<Ended> run_with(const std::function<void(Peer&)>& script, ExecSpec what = spec()) {
  FakeGuest guest([&](Peer& peer, const json::object&) {
    peer.say(kAccepted);
    script(peer);
  });
  return run(guest.path(), what, {.stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1}, -1);
}

std::string noise(size_t size, uint32_t seed) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<char>(seed >> 24);
  }
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(session)

BOOST_AUTO_TEST_CASE(request_says_everything_and_bytes_that_are_no_text) {
  FakeGuest guest([](Peer& peer, const json::object&) {
    peer.say(kAccepted);
    peer.exits("{\"exit\":0}");
  });
  ExecSpec what{.exec = "e1",
                .argv = {"cmd", "\xff\x01"},
                .env = {{"K", "V"}, {"B", "\x80"}},
                .cwd = "/workspace",
                .uid = 5,
                .gid = 6,
                .timeout = 1500ms};
  BOOST_REQUIRE(run(guest.path(), what, {.stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1}, -1));
  BOOST_TEST(json::serialize(guest.requests().at(0)) ==
             R"({"op":"exec","exec":"e1","argv":["cmd",{"b16":"ff01"}],"env":[["K","V"],["B",{"b16":"80"}]],)"
             R"("cwd":"/workspace","uid":5,"gid":6,"timeout_ms":1500})");
}

BOOST_AUTO_TEST_CASE(endings_are_told_apart) {
  const auto ends = [](const char* text) {
    return run_with([text](Peer& peer) { peer.exits(text); }).value();
  };
  const Ended exit = ends("{\"exit\":7}");
  BOOST_TEST((exit.how == Ended::How::exited));
  BOOST_TEST(exit.code == 7);
  BOOST_TEST(!exit.timed_out);
  const Ended killed = ends("{\"signal\":9,\"timed_out\":true}");
  BOOST_TEST((killed.how == Ended::How::signalled));
  BOOST_TEST(killed.code == 9);
  BOOST_TEST(killed.timed_out);
}

BOOST_AUTO_TEST_CASE(refusal_keeps_its_word) {
  FakeGuest guest([](Peer& peer, const json::object&) {
    peer.say("{\"ok\":false,\"error\":\"not_found\",\"text\":\"nosuch\\u001b[31m: no such program\"}\n");
  });
  const auto ended = run(guest.path(), spec(), {.stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1}, -1);
  BOOST_REQUIRE(ended);
  BOOST_TEST((ended->how == Ended::How::not_started));
  BOOST_TEST(ended->error == "not_found");
  BOOST_TEST(ended->text == "nosuch [31m: no such program");
}

BOOST_AUTO_TEST_CASE(output_arrives_byte_exact_and_apart) {
  const std::string out = noise(3 << 20, 1), err = noise(1 << 20, 2);
  FakeGuest guest([&](Peer& peer, const json::object&) {
    peer.say(kAccepted);
    size_t at_out = 0, at_err = 0;
    for (uint32_t i = 1; at_out < out.size() || at_err < err.size(); ++i) {
      const size_t a = std::min<size_t>(out.size() - at_out, i * 7919 % guest::kMaxFrame + 1);
      const size_t b = std::min<size_t>(err.size() - at_err, i * 104729 % 20'000 + 1);
      if (a > 0) peer.frame(FrameType::stdout_data, std::string_view(out).substr(at_out, a));
      if (b > 0) peer.frame(FrameType::stderr_data, std::string_view(err).substr(at_err, b));
      at_out += a;
      at_err += b;
    }
    peer.frame(FrameType::stdout_data);
    peer.frame(FrameType::stderr_data);
    peer.exits("{\"exit\":0}");
  });
  Pipe to_out, to_err;
  to_out.collect();
  to_err.collect();
  const auto ended =
      run(guest.path(), spec(),
          {.stdin_fd = -1, .stdout_fd = to_out.write.get(), .stderr_fd = to_err.write.get()}, -1);
  BOOST_REQUIRE(ended);
  BOOST_TEST(ended->code == 0);
  BOOST_TEST((to_out.all() == out));
  BOOST_TEST((to_err.all() == err));
}

BOOST_AUTO_TEST_CASE(both_streams_into_one_slow_pipe) {
  FakeGuest guest([&](Peer& peer, const json::object&) {
    peer.say(kAccepted);
    for (int i = 0; i < 50; ++i) {
      peer.frame(FrameType::stdout_data, std::string(10'000, 'o'));
      peer.frame(FrameType::stderr_data, std::string(10'000, 'e'));
    }
    peer.exits("{\"exit\":0}");
  });
  Pipe both;
  both.collect();
  BOOST_REQUIRE(run(guest.path(), spec(),
                    {.stdin_fd = -1, .stdout_fd = both.write.get(), .stderr_fd = both.write.get()}, -1));
  const std::string all = both.all();
  BOOST_TEST(std::count(all.begin(), all.end(), 'o') == 500'000);
  BOOST_TEST(std::count(all.begin(), all.end(), 'e') == 500'000);
}

BOOST_AUTO_TEST_CASE(input_arrives_byte_exact_and_ends) {
  const std::string in = noise(1 << 20, 3);
  std::string heard;
  FakeGuest guest([&](Peer& peer, const json::object&) {
    peer.say(kAccepted);
    heard = peer.hear_stdin();
    peer.exits("{\"exit\":0}");
  });
  Pipe from;
  std::thread writer([&] {
    BOOST_TEST(sys::write_full(from.write.get(), sys::as_bytes(in)).has_value());
    from.write.reset();
  });
  BOOST_REQUIRE(
      run(guest.path(), spec(), {.stdin_fd = from.read.get(), .stdout_fd = -1, .stderr_fd = -1}, -1));
  writer.join();
  BOOST_TEST((heard == in));
}

BOOST_AUTO_TEST_CASE(no_input_is_an_empty_input) {
  std::string heard = "unset";
  BOOST_REQUIRE(run_with([&](Peer& peer) {
    heard = peer.hear_stdin();
    peer.exits("{\"exit\":0}");
  }));
  BOOST_TEST(heard == "");
}

BOOST_AUTO_TEST_CASE(command_that_reads_no_input_ends_all_the_same) {
  Pipe endless;  // full, and never closed
  BOOST_REQUIRE(::fcntl(endless.write.get(), F_SETFL, O_NONBLOCK) == 0);
  const std::string page(4096, 'x');
  while (::write(endless.write.get(), page.data(), page.size()) > 0) {
  }
  FakeGuest guest([&](Peer& peer, const json::object&) {
    peer.say(kAccepted);
    peer.frame(FrameType::stdout_data, std::string(60'000, 'o'));
    peer.exits("{\"exit\":3}");
  });
  Pipe slow;
  slow.collect();
  const auto ended =
      run(guest.path(), spec(),
          {.stdin_fd = endless.read.get(), .stdout_fd = slow.write.get(), .stderr_fd = -1}, -1);
  BOOST_REQUIRE(ended);
  BOOST_TEST(ended->code == 3);
  BOOST_TEST(slow.all().size() == 60'000U);
}

// The exit frame is there and the connection is closed, while our own reader is still slow.
BOOST_AUTO_TEST_CASE(guest_that_closes_behind_the_exit_frame_loses_no_output) {
  sys::Fd gate(::eventfd(0, EFD_CLOEXEC));
  FakeGuest guest([&](Peer& peer, const json::object&) {
    peer.say(kAccepted);
    peer.frame(FrameType::stdout_data, std::string(65'536, 'o'));
    peer.exits("{\"exit\":0}");
  });
  Pipe slow;
  BOOST_REQUIRE(::fcntl(slow.write.get(), F_SETPIPE_SZ, 4096) == 4096);
  Pipe input;  // open, with bytes that nobody takes any more
  BOOST_REQUIRE(::write(input.write.get(), "x", 1) == 1);
  sys::Result<Ended> ended = sys::fail(ErrorKind::io, "unset");
  std::thread pump([&] {
    ended = run(guest.path(), spec(),
                {.stdin_fd = input.read.get(), .stdout_fd = slow.write.get(), .stderr_fd = -1}, -1);
  });
  pollfd first{slow.read.get(), POLLIN, 0};
  BOOST_TEST(::poll(&first, 1, 10'000) == 1);
  slow.collect();
  pump.join();
  BOOST_REQUIRE(ended);
  BOOST_TEST(slow.all().size() == 65'536U);
}

BOOST_AUTO_TEST_CASE(stop_interrupts_even_when_output_is_blocked) {
  bool closed = false;
  sys::Fd stop(::eventfd(0, EFD_CLOEXEC));
  std::optional<FakeGuest> guest;
  guest.emplace([&](Peer& peer, const json::object&) {
    peer.say(kAccepted);
    for (int i = 0; i < 4; ++i) {
      peer.frame(FrameType::stdout_data, std::string(65'536, 'o'));
      peer.frame(FrameType::stderr_data, std::string(65'536, 'e'));
    }
    closed = peer.ended();
  });
  Pipe full;  // nobody reads it
  std::thread stopper([&] {
    pollfd first{full.read.get(), POLLIN, 0};
    ::poll(&first, 1, 10'000);
    const uint64_t one = 1;
    BOOST_TEST(::write(stop.get(), &one, sizeof one) == ssize_t{sizeof one});
  });
  const auto ended =
      run(guest->path(), spec(),
          {.stdin_fd = -1, .stdout_fd = full.write.get(), .stderr_fd = full.write.get()}, stop.get());
  stopper.join();
  BOOST_REQUIRE(ended);
  BOOST_TEST((ended->how == Ended::How::interrupted));
  guest.reset();
  BOOST_TEST(closed);  // which kills the exec
}

BOOST_AUTO_TEST_CASE(stop_interrupts_a_guest_that_does_not_take_the_request) {
  const sys::Fd stop(::eventfd(1, EFD_CLOEXEC));
  FakeGuest guest([](Peer& peer, const json::object&) { peer.ended(); });
  const auto ended = run(guest.path(), spec({"cmd", std::string(900'000, 'x')}),
                         {.stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1}, stop.get());
  BOOST_REQUIRE(ended);
  BOOST_TEST((ended->how == Ended::How::interrupted));
}

BOOST_AUTO_TEST_CASE(request_beyond_the_limit_names_the_remedy) {
  FakeGuest guest([](Peer&, const json::object&) {});
  const auto ended = run(guest.path(), spec({std::string(guest::kMaxLine, 'x')}),
                         {.stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1}, -1);
  BOOST_REQUIRE(!ended);
  BOOST_TEST((ended.error().kind == ErrorKind::limit));
  BOOST_TEST(ended.error().text.find("--input") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(reader_that_went_away_sends_the_command_sigpipe) {
  ::signal(SIGPIPE, SIG_IGN);
  std::optional<FakeGuest> guest;
  sys::Fd killed(::eventfd(0, EFD_CLOEXEC));
  guest.emplace([&](Peer& peer, const json::object& request) {
    if (request.at("op") == "kill") {
      peer.say("{\"ok\":true}\n");
      const uint64_t one = 1;
      BOOST_TEST(::write(killed.get(), &one, sizeof one) == ssize_t{sizeof one});
      return;
    }
    peer.say(kAccepted);
    peer.frame(FrameType::stdout_data, "nobody reads this");
    uint64_t count;
    BOOST_TEST(::read(killed.get(), &count, sizeof count) == ssize_t{sizeof count});
    peer.frame(FrameType::stdout_data, "nor this");
    peer.exits("{\"signal\":13}");
  });
  Pipe closed;
  closed.read.reset();
  const auto ended =
      run(guest->path(), spec(), {.stdin_fd = -1, .stdout_fd = closed.write.get(), .stderr_fd = -1}, -1);
  BOOST_REQUIRE(ended);
  BOOST_TEST((ended->how == Ended::How::signalled));
  const auto requests = guest->requests();
  BOOST_REQUIRE(requests.size() == 2U);
  BOOST_TEST(json::serialize(requests[1]) == R"({"op":"kill","exec":"e1","signal":13})");
}

BOOST_AUTO_TEST_CASE(guest_that_does_not_keep_the_time_out_is_given_up) {
  ExecSpec what = spec();
  what.timeout = 10ms;
  what.grace = 50ms;
  const auto ended = run_with([](Peer& peer) { peer.ended(); }, what);
  BOOST_REQUIRE(!ended);
  BOOST_TEST((ended.error().kind == ErrorKind::unavailable));
}

BOOST_AUTO_TEST_SUITE_END()

// Frames of a guest that breaks the format: the session ends with kind protocol, whatever came before.
BOOST_AUTO_TEST_SUITE(hostile_frames)

namespace {

std::string raw_header(uint8_t type, uint8_t reserved, uint32_t length) {
  sys::Bytes bytes{std::byte{type}, std::byte{0}, std::byte{reserved}, std::byte{0}};
  sys::append_le(bytes, length);
  return std::string(sys::as_text(bytes));
}

ErrorKind kind_after(const std::string& bytes) {
  const auto ended = run_with([&](Peer& peer) {
    peer.frame(FrameType::stdout_data, "good so far");
    peer.say(bytes);
    peer.ended();  // the host hangs up by itself
  });
  return ended ? ErrorKind::usage : ended.error().kind;
}

}  // namespace

BOOST_AUTO_TEST_CASE(unknown_type_is_a_breach) {
  for (const uint8_t type : {0, 5, 6, 255})
    BOOST_TEST((kind_after(raw_header(type, 0, 0)) == ErrorKind::protocol));
}

BOOST_AUTO_TEST_CASE(stdin_from_the_guest_is_a_breach) {
  BOOST_TEST((kind_after(raw_header(1, 0, 0)) == ErrorKind::protocol));
}

BOOST_AUTO_TEST_CASE(reserved_byte_is_a_breach) {
  BOOST_TEST((kind_after(raw_header(2, 1, 0)) == ErrorKind::protocol));
}

BOOST_AUTO_TEST_CASE(length_beyond_the_limit_is_a_breach_before_its_bytes_come) {
  for (const uint32_t length : {guest::kMaxFrame + 1, 0x80000000U, 0xffffffffU}) {
    BOOST_TEST((kind_after(raw_header(3, 0, length)) == ErrorKind::protocol));
  }
}

BOOST_AUTO_TEST_CASE(output_on_a_closed_stream_is_a_breach) {
  BOOST_TEST((kind_after(raw_header(3, 0, 0) + raw_header(3, 0, 1) + "x") == ErrorKind::protocol));
}

BOOST_AUTO_TEST_CASE(exit_frame_that_says_nothing_sure_is_a_breach) {
  for (const char* text :
       {"", "nothing", "[]", "{}", "{\"exit\":256}", "{\"exit\":-1}", "{\"exit\":1.5}", "{\"exit\":\"0\"}",
        "{\"signal\":0}", "{\"signal\":65}", "{\"exit\":0} {}", "{\"exit\":18446744073709551615}"}) {
    BOOST_TEST((kind_after(raw_header(4, 0, static_cast<uint32_t>(std::strlen(text))) + text) ==
                ErrorKind::protocol),
               text);
  }
}

BOOST_AUTO_TEST_CASE(deep_exit_frame_is_a_breach) {
  const std::string text = "{\"exit\":" + std::string(60'000, '[');
  BOOST_TEST(
      (kind_after(raw_header(4, 0, static_cast<uint32_t>(text.size())) + text) == ErrorKind::protocol));
}

BOOST_AUTO_TEST_CASE(connection_that_ends_inside_a_frame_is_unavailable) {
  for (const std::string& bytes :
       {std::string(), raw_header(2, 0, 10).substr(0, 5), raw_header(2, 0, 10) + "half"}) {
    const auto ended = run_with([&](Peer& peer) { peer.say(bytes); });
    BOOST_REQUIRE(!ended);
    BOOST_TEST((ended.error().kind == ErrorKind::unavailable));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::exec
