#include "tests/unit/guest/server_fixture.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>

#include "vmm/guest/json.h"
#include "vmm/guest/server.h"
#include "vmm/sys/socket.h"

namespace turnbox::guest::test {
namespace {

constexpr int kPatience = 20'000;  // ms; a hang of the server, not a slow machine

std::string file_text(const std::filesystem::path& path) {
  auto text = sys::read_file(path.string(), 65'536);
  return text ? *text : std::string();
}

[[noreturn]] void serve(sys::Fd listener, const std::string& directory, bool try_cgroup) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // as PID 1 is for its guest
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  ProcessSets sets("turnbox-test-" + std::to_string(::getpid()) + "-", try_cgroup);
  Machine machine;
  machine.set_clock = [&](int64_t clock) {
    return sys::replace_file(directory + "/clock", std::to_string(clock), 0600);
  };
  machine.rebind = [&](uint32_t epoch) -> sys::Status {
    if (epoch > 9)
      return sys::fail(sys::ErrorKind::not_found, "there is no workspace epoch " + std::to_string(epoch));
    return sys::replace_file(directory + "/epoch", std::to_string(epoch), 0600);
  };
  machine.accept = [](sys::Fd& from) -> sys::Result<sys::Fd> {
    sys::Fd socket(::accept4(from.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return sys::fail_errno("no connection");
    return socket;
  };
  machine.flush = [&] {
    if (std::filesystem::exists(directory + "/stuck")) ::pause();
    return !std::filesystem::exists(directory + "/broken");
  };
  auto done = Server(std::move(machine), sets, std::move(listener)).run();
  ::_exit(done ? 0 : 1);
}

}  // namespace

void Peer::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;  // the server closed; the reads that follow say so
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void Peer::send_frame(FrameType type, std::string_view bytes) {
  const auto header = encode(FrameHeader{type, static_cast<uint32_t>(bytes.size())});
  send(std::string(sys::as_text(header)) + std::string(bytes));
}

bool Peer::fill(size_t count) {
  char bytes[65'536];
  while (have_.size() < count) {
    pollfd wait{socket_.get(), POLLIN, 0};
    BOOST_REQUIRE_MESSAGE(::poll(&wait, 1, kPatience) == 1, "the server does not answer");
    const ssize_t n = ::recv(socket_.get(), bytes, sizeof bytes, 0);
    if (n <= 0) return false;
    have_.append(bytes, static_cast<size_t>(n));
  }
  return true;
}

std::string Peer::line() {
  size_t end;
  while ((end = have_.find('\n')) == std::string::npos) {
    if (!fill(have_.size() + 1)) return "closed";
  }
  std::string line = have_.substr(0, end);
  have_.erase(0, end + 1);
  return line;
}

std::optional<std::pair<FrameType, std::string>> Peer::frame() {
  if (!fill(kFrameHeaderSize)) return std::nullopt;
  const auto header = decode_frame_header(std::span<const std::byte, kFrameHeaderSize>(
      reinterpret_cast<const std::byte*>(have_.data()), kFrameHeaderSize));
  BOOST_REQUIRE_MESSAGE(header, "a wrong frame header");
  BOOST_REQUIRE_MESSAGE(fill(kFrameHeaderSize + header->length), "a cut frame");
  std::pair<FrameType, std::string> frame{header->type, have_.substr(kFrameHeaderSize, header->length)};
  have_.erase(0, kFrameHeaderSize + header->length);
  return frame;
}

bool Peer::at_end() {
  return !fill(1);
}

void Peer::half_close() {
  ::shutdown(socket_.get(), SHUT_WR);
}

ServerProcess::ServerProcess(bool try_cgroup) {
  char directory[] = "/tmp/turnbox-guest-XXXXXX";
  BOOST_REQUIRE(::mkdtemp(directory) != nullptr);
  path_ = directory;
  auto listener = sys::listen_unix(path_ + "/s", 0600);
  BOOST_REQUIRE(listener);
  BOOST_REQUIRE(sys::set_nonblocking(listener->get()));
  pid_ = ::fork();
  BOOST_REQUIRE(pid_ >= 0);
  if (pid_ == 0) serve(std::move(*listener), path_, try_cgroup);
}

ServerProcess::~ServerProcess() {
  if (pid_ > 0) {
    // Asked first, so that it kills what it started and removes its cgroups.
    connect().send("{\"op\":\"poweroff\"}\n");
    for (int i = 0; i < 100 && pid_ > 0; ++i) {
      if (::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
      ::poll(nullptr, 0, 20);
    }
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      BOOST_ERROR("the server did not power off");
    }
  }
  std::filesystem::remove_all(path_);
}

Peer ServerProcess::connect() {
  auto socket = sys::connect_unix(path_ + "/s");
  BOOST_REQUIRE(socket);
  return Peer(std::move(*socket));
}

void ServerProcess::make_flush(std::string_view how) const {
  BOOST_REQUIRE(sys::replace_file(path_ + "/" + std::string(how), "", 0600));
}

std::string ServerProcess::ask(std::string_view line) {
  Peer peer = connect();
  peer.send(std::string(line) + "\n");
  return peer.line();
}

Outcome ServerProcess::collect(Peer& peer) {
  Outcome outcome;
  while (auto frame = peer.frame()) {
    BOOST_TEST(outcome.exit.empty(), "a frame after the exit frame");
    const auto& [type, bytes] = *frame;
    if (type == FrameType::exit) {
      outcome.exit = bytes;
      continue;
    }
    if (bytes.empty()) ++outcome.closings;
    (type == FrameType::stdout_data ? outcome.out : outcome.err) += bytes;
  }
  return outcome;
}

bool ServerProcess::waits_for_exit() {
  int status = -1;
  if (::waitpid(std::exchange(pid_, -1), &status, 0) < 0) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string ServerProcess::sh(std::string_view id, std::string_view script, std::string_view more) {
  return "{\"op\":\"exec\",\"exec\":" + json_text(id) + ",\"argv\":[\"sh\",\"-c\"," + json_text(script) +
         "],\"env\":[[\"PATH\",\"/usr/bin:/bin\"]],\"cwd\":\"/tmp\",\"uid\":" + std::to_string(::getuid()) +
         ",\"gid\":" + std::to_string(::getgid()) + std::string(more) + "}\n";
}

ProcessSets::Kind ServerProcess::best_kind() {
  return ProcessSets("turnbox-test-" + std::to_string(::getpid()) + "-").kind();
}

bool all_gone(std::string_view word, std::chrono::milliseconds within) {
  const auto deadline = std::chrono::steady_clock::now() + within;
  while (true) {
    bool found = false;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      if (file_text(entry.path() / "cmdline").find(word) != std::string::npos) found = true;
    }
    if (!found) return true;
    if (std::chrono::steady_clock::now() > deadline) return false;
    ::poll(nullptr, 0, 20);
  }
}

}  // namespace turnbox::guest::test
