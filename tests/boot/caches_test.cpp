// What a guest's caches must not hide: several turns in one sandbox, on a real guest kernel.
//
// One sandbox serves every case, in order. Needs the state directory TURNBOX_TEST_STATE with the default
// image.
#define BOOST_TEST_MODULE caches
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <set>
#include <sstream>
#include <thread>

#include "broker/demand/places.h"
#include "broker/demand/sandbox.h"
#include "broker/exec/session.h"
#include "broker/turn/ulid.h"
#include "vmm/sys/memfd.h"

namespace turnbox {
namespace {

using std::chrono::seconds;

struct Said {
  exec::Ended ended;
  std::string out;
};

// A command in the guest on a thread of its own; its output is read while it runs.
class Command {
 public:
  Command(const std::string& vsock, const std::string& script) {
    int ends[2];
    BOOST_REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    read_ = sys::Fd(ends[0]);
    write_ = sys::Fd(ends[1]);
    thread_ = std::thread([this, vsock, script] {
      static std::atomic<int> count{0};
      const exec::ExecSpec spec{.exec = "cmd-" + std::to_string(++count),
                                .argv = {"sh", "-c", script},
                                .env = {{"PATH", "/usr/bin:/bin"}},
                                .cwd = "/"};
      auto ended = exec::run(vsock, spec, {.stdin_fd = -1, .stdout_fd = write_.get(), .stderr_fd = 2}, -1);
      if (ended) ended_ = *ended;
      write_.reset();
    });
  }
  ~Command() {
    if (thread_.joinable()) thread_.join();
  }

  std::string line() {
    std::string text;
    char c;
    while (::read(read_.get(), &c, 1) == 1 && c != '\n') text += c;
    return text;
  }
  Said finish() {
    std::string rest;
    char piece[4096];
    ssize_t n;
    while ((n = ::read(read_.get(), piece, sizeof piece)) > 0) rest.append(piece, static_cast<size_t>(n));
    thread_.join();
    BOOST_REQUIRE_MESSAGE(ended_, "the exec session broke");
    return {*ended_, rest};
  }

 private:
  sys::Fd read_, write_;
  std::thread thread_;
  std::optional<exec::Ended> ended_;
};

struct Guest {
  Guest() {
    const char* state = std::getenv("TURNBOX_TEST_STATE");
    BOOST_REQUIRE_MESSAGE(state != nullptr, "TURNBOX_TEST_STATE is not set");
    places = *demand::find_places(state);
    BOOST_REQUIRE(demand::make_places(places));
    auto image = image::Images(places.state).find("default");
    BOOST_REQUIRE_MESSAGE(image, image.error().text);
    auto made = demand::Sandbox::create(places, {.id = "caches", .image = *image},
                                        [](const std::string&) { return sys::Status{}; });
    BOOST_REQUIRE_MESSAGE(made, made.error().text);
    sandbox = std::move(*made);
    sandbox->launch();
    auto ready = sandbox->await_guest(seconds(120), [] { return false; });
    BOOST_REQUIRE_MESSAGE(ready, ready.error().text);
  }

  std::string begin(uint64_t seq) {
    const std::string turn = *turn::new_ulid();
    auto begun = sandbox->files().turn_begin({.turn = turn,
                                              .demand = "caches",
                                              .thread = "main",
                                              .thread_seq = seq,
                                              .tier = "emulated",
                                              .inputs = {}});
    BOOST_REQUIRE_MESSAGE(begun, begun.error().text);
    BOOST_REQUIRE(sandbox->files().stage_begin(turn, "run"));
    return turn;
  }
  Said sh(const std::string& script) { return Command(sandbox->vsock_path(), script).finish(); }
  std::string read_output(control::SnapshotId snapshot) {
    std::string content;
    const auto keep = [&](const control::Object& object) -> sys::Status {
      if (object.kind == control::ObjectKind::chunk && object.bytes.size() < 64)
        content = sys::as_text(object.bytes);
      return {};
    };
    BOOST_REQUIRE(sandbox->files().objects(snapshot, "outputs/run", {}, keep));
    return content;
  }

  demand::Places places;
  std::unique_ptr<demand::Sandbox> sandbox;
};

Guest& guest() {
  static Guest the;
  return the;
}

struct Ended {
  ~Ended() { guest().sandbox.reset(); }
};

}  // namespace

BOOST_TEST_GLOBAL_FIXTURE(Ended);

BOOST_AUTO_TEST_CASE(second_turn_of_a_thread_is_seen_at_once) {
  for (uint64_t seq = 1; seq <= 3; ++seq) {
    const std::string turn = guest().begin(seq);
    const Said said = guest().sh("cat /turn/main/turn.json; readlink /turn/main; ls /turn/main/stages");
    BOOST_TEST(said.out.find("\"turn\":\"" + turn + "\"") != std::string::npos);
    BOOST_TEST(said.out.find("by-id/" + turn + "\n01-run\n") != std::string::npos);
    BOOST_REQUIRE(guest().sandbox->files().turn_end(turn, "completed"));
  }
}

BOOST_AUTO_TEST_CASE(polled_name_appears_although_its_absence_was_looked_up) {
  Command poller(guest().sandbox->vsock_path(),
                 "n=0; while [ ! -e /turn/waited ]; do n=$((n+1)); [ $n = 1 ] && echo absent; done; "
                 "cat /turn/waited/turn.json; ls -A /turn");
  BOOST_TEST(poller.line() == "absent");
  const std::string turn = *turn::new_ulid();
  BOOST_REQUIRE(guest().sandbox->files().turn_begin({.turn = turn,
                                                     .demand = "caches",
                                                     .thread = "waited",
                                                     .thread_seq = 1,
                                                     .tier = "emulated",
                                                     .inputs = {}}));
  const Said said = poller.finish();
  BOOST_TEST(said.out.find(turn) != std::string::npos);
  BOOST_REQUIRE(guest().sandbox->files().turn_end(turn, "completed"));
}

BOOST_AUTO_TEST_CASE(what_is_written_after_a_seal_fails_and_never_reaches_the_record) {
  const std::string turn = guest().begin(4);
  Command writer(guest().sandbox->vsock_path(), R"(exec python3 -c "
import mmap, os, sys
fd = os.open('/turn/main/stages/01-run/outputs/f', os.O_RDWR | os.O_CREAT)
os.write(fd, b'before the seal')
shared = mmap.mmap(fd, 15)
os.fsync(fd)
print('written', flush=True)
while os.path.exists('/turn/go') is False: pass
try:
    os.pwrite(fd, b'X', 0); os.fsync(fd); print('write went')
except OSError as e: print('write', e.errno)
try:
    shared[0:1] = b'Y'; shared.flush(); print('mapping went')
except OSError as e: print('mapping', e.errno)
try:
    os.open('/turn/main/stages/01-run/outputs/new', os.O_WRONLY | os.O_CREAT); print('create went')
except OSError as e: print('create', e.errno)
")");
  BOOST_TEST(writer.line() == "written");
  const auto sealed = guest().sandbox->files().stage_seal(turn, "run");
  BOOST_REQUIRE(sealed);
  // The sign for the guest to go on is a name that the host adds.
  BOOST_REQUIRE(guest().sandbox->files().turn_begin({.turn = *turn::new_ulid(),
                                                     .demand = "caches",
                                                     .thread = "go",
                                                     .thread_seq = 1,
                                                     .tier = "emulated",
                                                     .inputs = {}}));
  const Said said = writer.finish();
  BOOST_TEST(said.out.find("write 30\n") != std::string::npos);  // EROFS
  BOOST_TEST(said.out.find("create 30\n") != std::string::npos);
  BOOST_TEST_MESSAGE("a shared mapping after the seal: " + said.out);
  const auto ended = guest().sandbox->files().turn_end(turn, "completed");
  BOOST_REQUIRE(ended);
  BOOST_TEST(guest().read_output(*sealed) == "before the seal");
  BOOST_TEST(guest().read_output(ended->snapshot) == "before the seal");
}

BOOST_AUTO_TEST_CASE(events_of_four_appenders_and_the_daemon_stay_whole) {
  const std::string turn = guest().begin(5);
  Command appenders(guest().sandbox->vsock_path(), R"(exec python3 -c "
import os
for who in range(4):
    if os.fork() == 0:
        fd = os.open('/turn/main/events', os.O_WRONLY | os.O_APPEND)
        for n in range(100):
            os.write(fd, ('{\"who\": %d, \"n\": %d, \"pad\": \"%s\"}\n' % (who, n, 'x' * (n * 7))).encode())
        os._exit(0)
print('forked', flush=True)
for who in range(4): os.wait()
")");
  BOOST_TEST(appenders.line() == "forked");
  for (int n = 0; n < 50; ++n) {
    BOOST_REQUIRE(guest().sandbox->files().event_append(turn, {{"who", "daemon"}, {"n", n}}));
  }
  BOOST_TEST(appenders.finish().ended.code == 0);
  const auto log = guest().sandbox->files().events(turn);
  BOOST_REQUIRE(log);
  std::istringstream lines(*log);
  std::set<std::string> seen;
  for (std::string line; std::getline(lines, line);) {
    boost::system::error_code ec;
    const auto value = boost::json::parse(line, ec);
    BOOST_REQUIRE_MESSAGE(!ec && value.is_object(), "a broken line: " << line);
    // The daemon's own lines are objects under «turnbox», which no guest can write.
    const auto* own = value.as_object().if_contains("turnbox");
    const boost::json::object& event = own != nullptr ? own->as_object() : value.as_object();
    seen.insert(boost::json::serialize(event.at("who")) + "/" + boost::json::serialize(event.at("n")));
  }
  BOOST_TEST(seen.size() == 4u * 100u + 50u);
  BOOST_REQUIRE(guest().sandbox->files().turn_end(turn, "completed"));
}

BOOST_AUTO_TEST_CASE(new_workspace_epoch_makes_the_old_one_stale) {
  auto& files = guest().sandbox->files();
  const std::string& vsock = guest().sandbox->vsock_path();
  Command holder(vsock, R"(exec python3 -c "
import os
fd = os.open('/workspace/old', os.O_RDWR | os.O_CREAT)
os.write(fd, b'old'); os.fsync(fd)
print('held', flush=True)
while not os.path.exists('/turn/rebound'): pass
try:
    os.write(fd, b'late'); os.fsync(fd); print('write went')
except OSError as e: print('write', e.errno)
try:
    os.open('/workspace/another', os.O_WRONLY | os.O_CREAT); print('create went')
except OSError as e: print('create', e.errno)
")");
  BOOST_TEST(holder.line() == "held");
  const auto epoch = files.workspace_epoch();
  BOOST_REQUIRE(epoch);
  // Running execs hold the old one: the guest refuses to bind, and names them.
  const auto refused = exec::rebind(vsock, *epoch, exec::Clock::now() + seconds(10));
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().kind == sys::ErrorKind::conflict));
  BOOST_TEST(refused.error().text.find("cmd-") != std::string::npos);
  BOOST_REQUIRE(files.turn_begin({.turn = *turn::new_ulid(),
                                  .demand = "caches",
                                  .thread = "rebound",
                                  .thread_seq = 1,
                                  .tier = "emulated",
                                  .inputs = {}}));
  const Said said = holder.finish();
  BOOST_TEST(said.out.find("write 116\n") != std::string::npos);  // ESTALE
  BOOST_TEST(said.out.find("create 116\n") != std::string::npos);
  const auto bound = exec::rebind(vsock, *epoch, exec::Clock::now() + seconds(10));
  BOOST_REQUIRE_MESSAGE(bound, bound.error().text);
  BOOST_TEST(guest().sh("ls -A /workspace; echo fresh > /workspace/new; cat /workspace/new").out ==
             "fresh\n");
}

}  // namespace turnbox
