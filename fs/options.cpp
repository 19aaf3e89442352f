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
  uid_t peer_uid = 0;
  app.set_version_flag("--version", "turnbox-fsd " TURNBOX_VERSION);
  app.add_option("--workspace-fd", options.workspace_fd, "listening socket of the workspace device")
      ->required();
  app.add_option("--turn-fd", options.turn_fd, "listening socket of the turn device")->required();
  app.add_option("--control-fd", options.control_fd, "connected control socket")->required();
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
  TRY(check_socket(options.workspace_fd, "--workspace-fd", true));
  TRY(check_socket(options.turn_fd, "--turn-fd", true));
  TRY(check_socket(options.control_fd, "--control-fd", false));
  return options;
}

}  // namespace turnbox::fsd
