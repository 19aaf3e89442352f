// The methods of operators' mounts.
#include "fs/control/methods.h"
#include "fs/control/params.h"

namespace turnbox::control {
namespace {

using sys::ErrorKind;
using sys::Result;

}  // namespace

// A live tree, shown as it changes: a workspace under its guest, or a fork. One that is written is written by
// nobody else.
fuse::Options Methods::live(const std::shared_ptr<turn::Fork>& fork, bool write) {
  fs::Tree& tree = fork != nullptr ? *fork->tree : world_.tree;
  fuse::Options what{.tree = tree, .keep = fork, .write = write, .lasting = write};
  if (fork != nullptr) {
    what.root = [root = fork->root] { return root; };
  } else {
    what.root = [&workspace = world_.workspace] { return workspace.root(); };
  }
  return what;
}

// What a mount of `of` shows. A workspace that no guest has is changed by nobody but a mount that writes it:
// for reading it is shown as it stands now, and may be kept.
Result<fuse::Options> Methods::shown(const std::string& of, bool write) {
  if (of == "workspace" && (write || world_.guest)) {
    if (!write || !world_.guest) return live(nullptr, write);
    return sys::fail(ErrorKind::refused,
                     "only the guest writes a live workspace; make a fork and mount that");
  }
  if (of.starts_with('@')) {
    if (auto fork = world_.versions.find_fork(of.substr(1))) return live(*fork, write);
  }
  TRY_ASSIGN(const turn::Lease lease, world_.versions.read(of));
  if (write)
    return sys::fail(ErrorKind::refused,
                     of + " is a snapshot, which does not change; make a fork and mount that");
  fuse::Options what{.tree = world_.tree, .snapshot = &lease->snapshot, .keep = lease, .lasting = true};
  what.root = [root = lease->workspace] { return root; };
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
