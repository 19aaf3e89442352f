// A real turnbox-fsd, started the way the broker starts it: two device sockets and the control socket.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fs/control/client.h"
#include "vmm/sys/process.h"

namespace turnbox::support {

class Fsd {
 public:
  explicit Fsd(std::vector<std::string> more_arguments = {});
  ~Fsd();
  Fsd(const Fsd&) = delete;
  Fsd& operator=(const Fsd&) = delete;

  std::string workspace_socket() const { return directory_ + "/workspace.sock"; }
  std::string turn_socket() const { return directory_ + "/turn.sock"; }
  control::Client& client() { return *client_; }
  pid_t pid() const { return process_.pid(); }
  bool alive() { return !process_.poll(); }

 private:
  std::string directory_;
  sys::Process process_;
  std::unique_ptr<control::Client> client_;
};

}  // namespace turnbox::support
