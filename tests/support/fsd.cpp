#include "tests/support/fsd.h"

#include <stdlib.h>
#include <sys/socket.h>

#include <filesystem>

#include "tests/support/guest_memory.h"
#include "vmm/sys/socket.h"

namespace turnbox::support {
namespace {

template <typename T>
T must(sys::Result<T> result) {
  if (!result) give_up(result.error().text);
  return std::move(*result);
}

std::string make_directory() {
  char made[] = "/tmp/turnbox-fsd-XXXXXX";
  if (::mkdtemp(made) == nullptr) give_up("cannot make a directory below /tmp");
  return made;
}

// What a sanitizer of this build is told reaches the daemon too.
std::vector<std::string> environment() {
  std::vector<std::string> env{"TURNBOX_LOG=error"};
  for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS"}) {
    if (const char* value = ::getenv(name)) env.push_back(std::string(name) + "=" + value);
  }
  return env;
}

}  // namespace

Fsd::Fsd(std::vector<std::string> more_arguments) : directory_(make_directory()) {
  const sys::Fd workspace = must(sys::listen_unix(workspace_socket(), 0600));
  const sys::Fd turn = must(sys::listen_unix(turn_socket(), 0600));
  auto [ours, theirs] = must(sys::socket_pair(SOCK_STREAM));
  const std::string program = must(sys::sibling_program("turnbox-fsd"));
  std::vector<std::string> argv{program, "--workspace-fd", "3", "--turn-fd", "4", "--control-fd", "5"};
  argv.insert(argv.end(), more_arguments.begin(), more_arguments.end());
  process_ = must(sys::Process::spawn({.program = program,
                                       .argv = argv,
                                       .env = environment(),
                                       .fds = {{workspace.get(), 3}, {turn.get(), 4}, {theirs.get(), 5}}}));
  client_ = std::make_unique<control::Client>(std::move(ours));
}

Fsd::~Fsd() {
  std::filesystem::remove_all(directory_);
}

}  // namespace turnbox::support
