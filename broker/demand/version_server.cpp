#include "broker/demand/version_server.h"

#include <sys/socket.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "vmm/sys/socket.h"

namespace turnbox::demand {
namespace {

constexpr int kControl = 3;

std::vector<std::string> daemon_env() {
  std::vector<std::string> env;
  for (const char* name : {"TURNBOX_LOG", "ASAN_OPTIONS", "UBSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) env.push_back(std::string(name) + "=" + value);
  }
  return env;
}

}  // namespace

sys::Result<std::unique_ptr<VersionServer>> VersionServer::start(const Places& places) {
  TRY_ASSIGN(std::optional<UserSlot> users, UserSlot::take(places.slots));
  std::unique_ptr<VersionServer> server(new VersionServer(std::move(users)));
  TRY_ASSIGN(auto control, sys::socket_pair(SOCK_STREAM));
  TRY_ASSIGN(const std::string program, sys::sibling_program("turnbox-fsd"));
  std::vector<std::string> argv{"turnbox-fsd", "--control-fd", std::to_string(kControl)};
  if (server->users_) {
    const std::string user = std::to_string(server->users_->fsd());
    argv.insert(argv.end(), {"--uid", user, "--gid", user});
  }
  TRY_ASSIGN(server->fsd_, sys::Process::spawn({.program = program,
                                                .argv = std::move(argv),
                                                .env = daemon_env(),
                                                .fds = {{control.second.get(), kControl}}}));
  server->files_.emplace(std::move(control.first));
  return server;
}

}  // namespace turnbox::demand
