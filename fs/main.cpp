// turnbox-fsd: one sandbox's files, in memory. Wires the parts together and runs their one event loop.
#include <fcntl.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <time.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "fs/control/methods.h"
#include "fs/control/operators.h"
#include "fs/control/server.h"
#include "fs/options.h"
#include "fs/virtiofs/device.h"
#include "vmm/sys/log.h"
#include "vmm/sys/sandbox.h"
#include "vmm/vhost/backend.h"

namespace turnbox::fsd {
namespace {

namespace json = boost::json;

fs::Budget budget_of(const Options& options) {
  fs::Budget budget;
  if (options.bytes != 0) budget.bytes = options.bytes;
  if (options.inodes != 0) budget.inodes = options.inodes;
  return budget;
}

fs::Time wall_clock() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return {now.tv_sec, static_cast<uint32_t>(now.tv_nsec)};
}

// One virtio-fs device behind its vhost-user socket.
struct Door {
  virtiofs::Device device;
  vhost::Backend backend;

  Door(boost::asio::io_context& io, fs::Tree& tree, virtiofs::Options what, int listener,
       const std::optional<uid_t>& peer_uid, std::function<void()> gone)
      : device(tree, std::move(what)),
        backend(io, sys::Fd(listener), device, {.peer_uid = peer_uid}, std::move(gone)) {}

  json::object stats() const {
    json::object out;
    device.each_counter([&](const char* name, uint64_t value) { out[name] = value; });
    const vhost::Counters& counters = backend.counters();
    out["vhost_messages"] = counters.messages;
    out["vhost_messages_refused"] = counters.messages_refused;
    out["vhost_peers_refused"] = counters.peers_refused;
    out["vhost_chains"] = counters.chains;
    out["vhost_queue_faults"] = counters.queue_faults;
    return out;
  }
};

// The terminal's and the session's signals reach the whole process group, but this process's life is its
// control socket's: the broker decides when a turn is cancelled.
void ignore_group_signals() {
  for (const int number : {SIGINT, SIGQUIT, SIGHUP, SIGPIPE}) ::signal(number, SIG_IGN);
}

// OpenSSL reads its configuration at first use, which must be before the empty root.
void warm_up_digests() {
  (void)sys::digest_of("chunk", {});
}

sys::Status serve(const Options& options) {
  ignore_group_signals();
  warm_up_digests();
  TRY_ASSIGN(const sys::Confinement confinement, sys::confine({.uid = options.uid, .gid = options.gid}));

  boost::asio::io_context io(1);
  // While an answer is being made and both devices are gone, nothing is waited for; the loop goes on all the
  // same.
  const auto open = boost::asio::make_work_guard(io);
  fs::Tree tree(budget_of(options), wall_clock);
  const fs::ZoneId host_zone = tree.add_zone({fs::ZoneState::sealed, fs::ZoneUse::shared});
  turn::Sweeper sweeper(tree);
  control::Reclaimer reclaimer(io, tree, sweeper);
  turn::Events events(tree);
  TRY_ASSIGN(turn::Workspace workspace, turn::Workspace::make(tree, sweeper, host_zone));
  TRY_ASSIGN(turn::Turns turns, turn::Turns::make(tree, events, sweeper, host_zone));
  turn::Snapshots snapshots(tree, [&] { reclaimer.poke(); });
  turn::Versions versions(tree, workspace, snapshots, wall_clock,
                          [&](std::shared_ptr<turn::Fork> fork) { reclaimer.poke(std::move(fork)); });
  control::Hasher hasher(io), operators_hasher(io);

  control::Server* server = nullptr;
  const auto gone = [&](const char* device) {
    return [&server, device] { server->notify("device.gone", {{"device", device}}); };
  };
  // A stored version that is looked at has no guest, and so no device.
  std::optional<Door> workspace_door, turn_door;
  if (options.workspace_fd >= 0) {
    workspace_door.emplace(io, tree,
                           virtiofs::Options{.contract = virtiofs::Contract::workspace,
                                             .root = workspace.device_root(),
                                             .name = "fs:workspace",
                                             .now = wall_clock},
                           options.workspace_fd, options.peer_uid, gone("workspace"));
  }
  if (options.turn_fd >= 0) {
    turn_door.emplace(io, tree,
                      virtiofs::Options{.contract = virtiofs::Contract::turn,
                                        .root = turns.device_root(),
                                        .name = "fs:turn",
                                        .events = &events,
                                        .now = wall_clock},
                      options.turn_fd, options.peer_uid, gone("turn"));
  }

  control::Mounts mounts(io);
  control::Methods methods({.io = io,
                            .tree = tree,
                            .workspace = workspace,
                            .turns = turns,
                            .events = events,
                            .snapshots = snapshots,
                            .versions = versions,
                            .hasher = hasher,
                            .operators_hasher = operators_hasher,
                            .reclaimer = reclaimer,
                            .mounts = mounts,
                            .guest = options.workspace_fd >= 0,
                            .confinement = confinement,
                            .stats = [&] {
                              json::object out;
                              if (workspace_door) out["workspace"] = workspace_door->stats();
                              if (turn_door) out["turn"] = turn_door->stats();
                              return out;
                            }});
  sys::Status ended;
  control::Server control(io, sys::Fd(options.control_fd), methods, control::Session::Rights::owner,
                          [&](sys::Status how) {
                            ended = std::move(how);
                            io.stop();
                          });
  server = &control;
  std::optional<control::Operators> operators;
  if (options.control_listener >= 0) {
    operators.emplace(io, sys::Fd(options.control_listener), options.control_uid, methods);
  }
  io.run();
  if (!ended) spdlog::error("the control socket: {}", ended.error().text);
  // All that is left is memory, which the kernel takes back faster than destructors and the hasher would.
  std::_Exit(ended ? 0 : 1);
}

int run(int argc, const char* const* argv) {
  std::string shown;
  const auto options = parse_options(argc, argv, shown);
  if (!options) {
    std::fprintf(stderr, "turnbox-fsd: %s\n", options.error().text.c_str());
    return 2;
  }
  if (!*options) {
    std::fputs(shown.c_str(), stdout);
    return 0;
  }
  sys::start_log("turnbox-fsd");
  const sys::Status ended = serve(**options);
  if (ended) return 0;
  spdlog::error("{}", ended.error().text);
  return 1;
}

}  // namespace
}  // namespace turnbox::fsd

int main(int argc, char** argv) {
  int status = 1;
  try {
    status = turnbox::fsd::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "turnbox-fsd: %s\n", error.what());
  }
  return status;
}
