#include "tests/guest/control/fsd_process.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <boost/json/parse.hpp>
#include <stdexcept>

#include "vmm/sys/socket.h"

namespace turnbox::control {
namespace {

std::filesystem::path make_dir() {
  char path[] = "/tmp/turnbox-fsd-test.XXXXXX";
  if (::mkdtemp(path) == nullptr) throw std::runtime_error("cannot make a directory in /tmp");
  return path;
}

// What a sanitizer of this build is told reaches the daemon too.
std::vector<std::string> environment() {
  std::vector<std::string> env;
  for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TURNBOX_LOG"}) {
    if (const char* value = ::getenv(name)) env.push_back(std::string(name) + "=" + value);
  }
  return env;
}

}  // namespace

Daemon::Daemon(std::vector<std::string> more, bool devices) : dir(make_dir()) {
  const sys::Fd workspace = sys::listen_unix(workspace_socket(), 0600).value();
  const sys::Fd turn = sys::listen_unix(turn_socket(), 0600).value();
  const sys::Fd operators = sys::listen_unix(operators_socket(), 0600).value();
  auto [ours, theirs] = sys::socket_pair(SOCK_STREAM).value();
  socket = std::move(ours);
  std::vector<std::string> argv{"turnbox-fsd", "--control-fd", "5", "--control-listener", "6"};
  if (devices) argv.insert(argv.end(), {"--workspace-fd", "3", "--turn-fd", "4"});
  argv.insert(argv.end(), more.begin(), more.end());
  process = sys::Process::spawn(
                {.program = sys::sibling_program("turnbox-fsd").value(),
                 .argv = argv,
                 .env = environment(),
                 .fds = {{workspace.get(), 3}, {turn.get(), 4}, {theirs.get(), 5}, {operators.get(), 6}}})
                .value();
}

Daemon::~Daemon() {
  std::filesystem::remove_all(dir);
}

std::string Daemon::proc(const std::string& name) const {
  return sys::read_file("/proc/" + std::to_string(process.pid()) + "/" + name, 1 << 20).value();
}

std::string Daemon::status(const std::string& field) const {
  const std::string all = proc("status");
  const size_t at = all.find("\n" + field + ":\t");
  if (at == all.npos) return {};
  const size_t from = at + field.size() + 3;
  return all.substr(from, all.find('\n', from) - from);
}

void Raw::send(std::string_view bytes, std::vector<int> fds) {
  // fsd may have hung up already: what it said before that still has to be read.
  (void)sys::send_with_fds(socket_.get(), sys::as_bytes(bytes), fds);
}

boost::json::value Raw::receive() {
  std::string line;
  while (in_.next(line) != LineBuffer::Next::line) {
    pollfd wait{socket_.get(), POLLIN, 0};
    if (::poll(&wait, 1, 30'000) <= 0) throw std::runtime_error("fsd says nothing");
    std::byte buffer[4096];
    auto got = sys::receive_with_fds(socket_.get(), buffer);
    if (!got || got->size == 0) return nullptr;
    (void)in_.feed({buffer, got->size}, std::move(got->fds));
  }
  return boost::json::parse(line);
}

int Raw::code() {
  const auto answer = receive();
  if (!answer.is_object()) throw std::runtime_error("fsd hung up");
  const auto* error = answer.get_object().if_contains("error");
  return error == nullptr ? 0 : static_cast<int>(error->at("code").as_int64());
}

std::vector<sys::Fd> Raw::take_fds(size_t count) {
  return in_.take_fds(count).value();
}

}  // namespace turnbox::control
