// The methods of operators' mounts.
#include "fs/control/methods.h"
#include "fs/control/params.h"

namespace turnbox::control {
namespace {

using sys::ErrorKind;
using sys::Result;

}  // namespace

// A named version: of a fork that is written the tree itself, else a snapshot.
Result<fuse::Options> Methods::shown_version(const std::string& of, bool write) {
  if (write) {
    TRY_ASSIGN(const std::shared_ptr<turn::Fork> fork,
               world_.versions.find_fork(of.starts_with("@") ? of.substr(1) : of));
    return fuse::Options{.tree = *fork->tree,
                         .keep = fork,
                         .root = [root = fork->root] { return root; },
                         .write = true,
                         .lasting = true};
  }
  TRY_ASSIGN(const turn::Lease lease, world_.versions.read(of));
  return fuse::Options{.tree = world_.tree,
                       .snapshot = &lease->snapshot,
                       .keep = lease,
                       .root = [root = lease->workspace] { return root; },
                       .lasting = true};
}

// What a mount of `of` shows. A workspace that no guest has is not changed by anybody but a mount that
// writes, so it is shown for reading as it stands now, and may be kept.
Result<fuse::Options> Methods::shown(const std::string& of, bool write) {
  if (of != "workspace") return shown_version(of, write);
  fuse::Options what{.tree = world_.tree, .root = [this] { return world_.workspace.root(); }, .write = write};
  if (world_.guest) {
    if (!write) return what;
    return sys::fail(ErrorKind::refused,
                     "only the guest writes a live workspace; make a fork and mount that");
  }
  what.lasting = true;
  if (write) return what;
  const auto give_back = [&owner = world_.tree, &reclaimer = world_.reclaimer](fs::Snapshot* held) {
    owner.release(std::move(*held));
    delete held;
    reclaimer.poke();
  };
  const std::shared_ptr<fs::Snapshot> held(new fs::Snapshot(world_.tree.snapshot()), give_back);
  what.snapshot = held.get();
  what.keep = held;
  what.root = [root = world_.workspace.root()] { return root; };
  return what;
}

Result<Answer> Methods::mount_attach(Call& call) {
  Params given(call.params);
  TRY_ASSIGN(const std::string of, given.text("of"));
  TRY_ASSIGN(const bool write, given.flag("write"));
  TRY(given.finish());
  if (call.fds.size() != 1)
    return sys::fail(ErrorKind::invalid, "this method takes the descriptor of one mount");
  TRY_ASSIGN(fuse::Options what, shown(of, write));
  TRY_ASSIGN(const uint64_t mount,
             world_.mounts.attach(call.session.id, std::move(what), std::move(call.fds[0]),
                                  [&session = call.session](uint64_t gone) {
                                    session.notify("mount.gone", {{"mount", gone}});
                                  }));
  return Answer{{{"mount", mount}}, {}};
}

Result<Answer> Methods::mount_detach(Call& call) {
  Params given(call.params);
  TRY_ASSIGN(const uint64_t mount, given.number("mount"));
  TRY(given.finish());
  if (!call.fds.empty()) return sys::fail(ErrorKind::invalid, "this method takes no descriptor");
  TRY(world_.mounts.detach(call.session.id, mount));
  return Answer{};
}

}  // namespace turnbox::control
