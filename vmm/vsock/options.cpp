#include "vmm/vsock/options.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>

namespace turnbox::vsock {
namespace {

sys::Status check_socket(const char* option, int fd, int type, bool listening) {
  const auto refuse = [&](const char* what) {
    return sys::fail(sys::ErrorKind::usage,
                     std::string(option) + ": descriptor " + std::to_string(fd) + " is not " + what);
  };
  const auto get = [fd](int name) {
    int value = -1;
    socklen_t size = sizeof value;
    return ::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
  };
  if (get(SO_DOMAIN) != AF_UNIX || get(SO_TYPE) != type) {
    return refuse(type == SOCK_STREAM ? "a unix stream socket" : "a unix SOCK_SEQPACKET socket");
  }
  if (get(SO_ACCEPTCONN) != (listening ? 1 : 0)) return refuse(listening ? "listening" : "connected");
  return {};
}

sys::Status check(const Options& options) {
  TRY(check_socket("--device-fd", options.device_fd, SOCK_STREAM, true));
  TRY(check_socket("--connect-fd", options.connect_fd, SOCK_STREAM, true));
  TRY(check_socket("--dial-fd", options.dial_fd, SOCK_SEQPACKET, false));
  if (options.cid < 3 || options.cid > 0xfffffffe) {
    return sys::fail(sys::ErrorKind::usage, "--cid: a guest's CID is 3 to 4294967294");
  }
  if ((options.uid == 0) != (options.gid == 0)) {
    return sys::fail(sys::ErrorKind::usage, "--uid and --gid go together, and neither is 0");
  }
  return {};
}

}  // namespace

sys::Result<Invocation> parse_options(int argc, const char* const* argv) {
  Options options;
  CLI::App app("One guest's vhost-user-vsock device, between its virtqueues and unix sockets of its sandbox.",
               "turnbox-vsockd");
  app.set_version_flag("--version", std::string("turnbox-vsockd " TURNBOX_VERSION));
  app.add_option("--device-fd", options.device_fd, "listening unix socket for the virtual machine")
      ->required();
  app.add_option("--connect-fd", options.connect_fd, "listening unix socket for CONNECT (vsock.sock)")
      ->required();
  app.add_option("--dial-fd", options.dial_fd,
                 "connected SOCK_SEQPACKET socket to the broker; the daemon ends with it")
      ->required();
  app.add_option("--allow", options.allow, "a host port that the guest may connect to; may be given again");
  app.add_option("--cid", options.cid, "the guest's CID")->capture_default_str();
  app.add_option("--peer-uid", options.peer_uid, "the only user whose process may be the virtual machine");
  app.add_option("--connect-uid", options.connect_uid, "the only user whose processes may CONNECT");
  app.add_option("--uid", options.uid, "the user to become");
  app.add_option("--gid", options.gid, "the group to become");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return Invocation{.serve = {}, .print = app.help()};
  } catch (const CLI::CallForVersion& e) {
    return Invocation{.serve = {}, .print = std::string(e.what()) + "\n"};
  } catch (const CLI::ParseError& e) {
    return sys::fail(sys::ErrorKind::usage, std::string(e.what()) + "; see turnbox-vsockd --help");
  }
  TRY(check(options));
  return Invocation{.serve = std::move(options), .print = {}};
}

}  // namespace turnbox::vsock
