// `turnbox mount`: a version on a directory of this host, for as long as the command runs.
#include <cstdio>
#include <variant>

#include "broker/cli/open_ledger.h"
#include "broker/cli/options.h"
#include "broker/cli/signals.h"
#include "broker/cli/text.h"
#include "broker/cli/verb.h"
#include "broker/demand/feed.h"
#include "broker/demand/fork_save.h"
#include "broker/demand/operator_mount.h"
#include "broker/demand/places.h"
#include "broker/demand/runtime_dir.h"
#include "broker/demand/version_server.h"
#include "broker/demand/versions.h"
#include "broker/exec/guest.h"
#include "broker/turn/stored_tree.h"

namespace turnbox::cli {
namespace {

using demand::MountEnd;
using demand::OperatorMount;
using sys::ErrorKind;

constexpr auto kFlushTime = std::chrono::seconds(10);

struct Words {
  std::string name, dir;
  bool write = false, flush = false;
};

// What is served, by whom, and under which name there.
struct Shown {
  control::Client& files;
  std::string of;
};

// A mount stays for hours: the store is open only until the version is found and handed over.
void close(Opened opened) {
  const Opened closed(std::move(opened));
}

tl::unexpected<sys::Error> no_guest() {
  return sys::fail(ErrorKind::usage, "--flush is for the live workspace of a running sandbox");
}

sys::Result<MountEnd> hold(const Words& words, const Shown& shown, OperatorMount mount,
                           const sys::Fd& signals) {
  TRY(mount.attach(shown.files, shown.of, words.write));
  std::printf("%s is on %s, %s; ^C or umount ends it\n", printable(words.name).c_str(),
              printable(mount.dir()).c_str(), words.write ? "for writing" : "read-only");
  std::fflush(stdout);
  TRY_ASSIGN(const MountEnd end, mount.wait(shown.files, signals.get()));
  mount.unmount();
  if (end == MountEnd::server_gone) {
    std::fprintf(stderr, "turnbox: %s ended; %s is unmounted\n", printable(words.name).c_str(),
                 printable(words.dir).c_str());
  }
  return end;
}

sys::Result<int> show_live(const Words& words, const demand::Places& places, const demand::LiveVersion& live,
                           const sys::Fd& signals) {
  if (words.write && live.of == "workspace") {
    return sys::fail(ErrorKind::usage,
                     "only the guest writes the live workspace of " + words.name +
                         "; make a fork with turnbox workspace fork and mount that with --write");
  }
  if (words.flush && live.of != "workspace") return no_guest();
  TRY_ASSIGN(control::Client files, demand::connect_files(places, live.demand));
  if (words.flush) {
    const std::string vsock = demand::runtime_dir_of(places, live.demand) + "/" + demand::kVsockSocket;
    auto flushed = exec::flush(vsock, kFlushTime);
    if (!flushed)
      return sys::context("cannot have " + words.name + " write back what it holds", flushed.error());
    if (!*flushed) std::fprintf(stderr, "turnbox: the guest did not write everything back within 10 s\n");
  }
  TRY_ASSIGN(OperatorMount mount, OperatorMount::make(words.dir, words.write, kMountGuard));
  TRY(hold(words, {files, live.of}, std::move(mount), signals));
  return 0;
}

sys::Status save(const Words& words, const demand::Places& places, MountEnd end, control::Client& files,
                 const store::WorkspaceRow& fork) {
  const std::string lost = "what was written to " + words.name + " is lost";
  if (end == MountEnd::server_gone) return sys::fail(ErrorKind::unavailable, "turnbox-fsd died, and " + lost);
  auto ledger = turn::Ledger::open(places.state);
  if (!ledger) return sys::context(lost, std::move(ledger).error());
  const auto name = demand::save_fork(files, ledger->store(), fork);
  if (!name) return sys::context(lost, name.error());
  if (*name != fork.name) {
    std::fprintf(stderr, "turnbox: %s was changed or removed meanwhile; what was written is kept as %s\n",
                 printable(fork.name).c_str(), name->c_str());
  }
  std::printf("saved as %s\n", name->c_str());
  return {};
}

sys::Result<int> show_stored(const Words& words, Opened opened, const demand::StoredVersion& stored,
                             const sys::Fd& signals) {
  if (words.flush) return no_guest();
  TRY_ASSIGN(const auto fork, opened.ledger.store().find_workspace(words.name));
  if (words.write && !fork) {
    return sys::fail(ErrorKind::usage,
                     words.name +
                         " is a turn's, and does not change; make a fork with turnbox workspace fork "
                         "and mount that with --write");
  }
  TRY_ASSIGN(OperatorMount mount, OperatorMount::make(words.dir, words.write, kMountGuard));
  TRY_ASSIGN(const auto server, demand::VersionServer::start(opened.places));
  {
    TRY_ASSIGN(const store::Reader reader, opened.ledger.store().read());
    TRY(demand::feed_version({turn::fetch_from(reader, stored.account), stored.tree}, server->files(),
                             "workspace"));
  }
  const demand::Places places = opened.places;
  close(std::move(opened));
  TRY_ASSIGN(const MountEnd end, hold(words, {server->files(), "workspace"}, std::move(mount), signals));
  if (words.write) TRY(save(words, places, end, server->files(), *fork));
  return 0;
}

sys::Result<int> enter(const Arguments& arguments) {
  Options options(kMount);
  Words words;
  options.argument("NAME", words.name);
  options.argument("DIR", words.dir);
  options.flag("--write", words.write);
  options.flag("--flush", words.flush);
  TRY(options.parse(arguments));
  TRY_ASSIGN(const sys::Fd signals, signals_as_descriptor());
  TRY_ASSIGN(Opened opened, open_ledger(options));
  TRY_ASSIGN(const demand::Version version,
             demand::find_version(opened.places, opened.ledger.store(), words.name));
  if (const auto* stored = std::get_if<demand::StoredVersion>(&version)) {
    return show_stored(words, std::move(opened), *stored, signals);
  }
  const demand::Places places = opened.places;
  close(std::move(opened));
  return show_live(words, places, std::get<demand::LiveVersion>(version), signals);
}

}  // namespace

const Verb kMount{"mount", "show a version's files on a directory of this host",
                  R"(usage: turnbox mount NAME DIR [--write] [--flush] [--state DIR]

Mounts a version on DIR, an empty directory, and stays until ^C, until `umount DIR`, or until the sandbox ends; then DIR
is empty again. Files belong to whom they belong in the guest; suid bits and device nodes have no effect. Symbolic links
may point anywhere on this host: what made them was not trusted.

NAME is one of
  DEMAND                a running sandbox's workspace, as far as its guest wrote it back; it changes while one looks
  DEMAND@NAME           a named snapshot or a fork of a running sandbox
  TURN[:WHICH]          a stored turn: the workspace after it, or WHICH of before, after, outputs/STAGE, inputs/NAME
  FORK                  a stored fork

  --write       writable: forks only. What was written to a stored fork is saved to it when the mount ends, all at once;
                what was written to a fork of a running sandbox (DEMAND@NAME) is there as soon as it is written
  --flush       have the guest write back what it holds in its memory first (live workspaces only)
  --state DIR   where records are kept (TURNBOX_STATE)

Needs /dev/fuse, and root or fusermount3 (package fuse3).

example
  mkdir look && turnbox mount 01JD look
)",
                  enter};

}  // namespace turnbox::cli
