// The real turnbox-fsd, started the way the broker starts it, with its control socket in our hands.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fs/control/client.h"
#include "vmm/sys/process.h"

namespace turnbox::control {

struct Daemon {
  std::filesystem::path dir;  // of the sockets; removed at the end
  sys::Process process;
  sys::Fd socket;  // our end of the control socket, until client() or raw use takes it

  explicit Daemon(std::vector<std::string> more = {}, bool devices = true);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  Client client() { return Client(std::move(socket), std::chrono::seconds(60)); }
  std::string workspace_socket() const { return (dir / "workspace.sock").string(); }
  std::string operators_socket() const { return (dir / "fsd.sock").string(); }
  std::string turn_socket() const { return (dir / "turn.sock").string(); }
  std::string proc(const std::string& name) const;  // content of /proc/<pid>/NAME
  std::string status(const std::string& field) const;
};

// The control socket without the client's good manners.
class Raw {
 public:
  explicit Raw(sys::Fd socket) : socket_(std::move(socket)) {}
  void send(std::string_view bytes, std::vector<int> fds = {});
  // The next line as JSON; null value when fsd hung up. Throws after 30 s.
  boost::json::value receive();
  // Code of the error in the next line; 0 for a result.
  int code();
  std::vector<sys::Fd> take_fds(size_t count);
  int fd() const { return socket_.get(); }
  void close() { socket_.reset(); }

 private:
  sys::Fd socket_;
  LineBuffer in_{kMaxLine};
};

}  // namespace turnbox::control
