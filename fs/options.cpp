#include "fs/options.h"

#include <sys/socket.h>

#include <CLI/CLI.hpp>

namespace turnbox::fsd {
namespace {

constexpr uint64_t kMost = (uint64_t{1} << 53) - 1;  // control messages carry them as JSON integers

sys::Status check_socket(int fd, const char* option, bool listening) {
  int type = 0, accepts = 0;
  socklen_t size = sizeof type;
  const bool stream = ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
                      ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) == 0;
  if (stream && (accepts != 0) == listening) return {};
  return sys::fail(sys::ErrorKind::usage, std::string(option) + ": descriptor " + std::to_string(fd) +
                                              " is not a " + (listening ? "listening" : "connected") +
                                              " stream socket; pass one that the caller made");
}

}  // namespace

sys::Result<std::optional<Options>> parse_options(int argc, const char* const* argv, std::string& shown) {
  Options options;
  CLI::App app(
      "Serves one sandbox's /workspace and /turn from memory. Started by turnbox with open descriptors;\n"
      "it ends when its control socket closes.",
      "turnbox-fsd");
  uid_t peer_uid = 0, control_uid = 0;
  app.set_version_flag("--version", "turnbox-fsd " TURNBOX_VERSION);
  app.add_option("--workspace-fd", options.workspace_fd,
                 "listening socket of the workspace device (none: no such device)");
  app.add_option("--turn-fd", options.turn_fd, "listening socket of the turn device (none: no such device)");
  app.add_option("--control-fd", options.control_fd, "connected control socket of the owner")->required();
  app.add_option("--control-listener", options.control_listener, "listening control socket for operators");
  auto* control_user =
      app.add_option("--control-uid", control_uid, "the only user beside root who may connect to it");
  auto* peer = app.add_option("--peer-uid", peer_uid, "the only user whose QEMU may connect");
  app.add_option("--uid", options.uid, "user to become (as root)");
  app.add_option("--gid", options.gid, "group to become (as root)");
  app.add_option("--bytes", options.bytes, "most bytes of file content")
      ->check(CLI::Range(uint64_t{1}, kMost));
  app.add_option("--inodes", options.inodes, "most inodes")->check(CLI::Range(uint64_t{16}, kMost));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    shown = app.help();
    return std::nullopt;
  } catch (const CLI::CallForVersion&) {
    shown = app.version() + "\n";
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return sys::fail(sys::ErrorKind::usage, std::string(error.what()) + "; see turnbox-fsd --help");
  }
  if (peer->count() > 0) options.peer_uid = peer_uid;
  if (control_user->count() > 0) options.control_uid = control_uid;
  if (app.count("--workspace-fd") > 0) TRY(check_socket(options.workspace_fd, "--workspace-fd", true));
  if (app.count("--turn-fd") > 0) TRY(check_socket(options.turn_fd, "--turn-fd", true));
  if (app.count("--control-listener") > 0) {
    TRY(check_socket(options.control_listener, "--control-listener", true));
  }
  TRY(check_socket(options.control_fd, "--control-fd", false));
  return options;
}

}  // namespace turnbox::fsd
