#include <cstdio>
#include <ctime>

#include "broker/cli/verb.h"
#include "broker/cli/workspace.h"

namespace turnbox::cli {
namespace {

int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

sys::Status fork_live(Opened& opened, const demand::LiveVersion& live, const std::string& name) {
  TRY_ASSIGN(control::Client files, demand::connect_files(opened.places, live.demand));
  if (live.of == "workspace") (void)flush_guest(opened.places, live.demand);
  TRY_ASSIGN(const control::SnapshotId snapshot, files.snapshot_take(live.of));
  TRY(files.snapshot_fork(snapshot, name));
  std::printf("%s@%s\n", live.demand.c_str(), name.c_str());
  return {};
}

sys::Status fork_stored(Opened& opened, const demand::StoredVersion& stored, const std::string& name) {
  if (stored.tree.kind != store::ObjectKind::dir) {
    return sys::fail(sys::ErrorKind::invalid, stored.shown + " is one file, not a workspace");
  }
  TRY(opened.ledger.store().add_workspace({.name = name,
                                           .account = stored.account,
                                           .kind = stored.tree.kind,
                                           .content = stored.tree.content,
                                           .meta = stored.tree.meta,
                                           .origin = stored.shown,
                                           .created_ns = now_ns()}));
  std::printf("%s\n", name.c_str());
  return {};
}

sys::Result<int> enter(const Arguments& arguments) {
  Options options(kWorkspaceFork);
  std::string text, name;
  options.argument("VERSION", text);
  options.argument("NAME", name);
  TRY(options.parse(arguments));
  TRY(demand::check_version_name(name));
  TRY_ASSIGN(Opened opened, open_ledger(options));
  TRY_ASSIGN(const demand::Version version, demand::find_version(opened.places, opened.ledger.store(), text));
  if (const auto* live = std::get_if<demand::LiveVersion>(&version)) {
    TRY(fork_live(opened, *live, name));
  } else {
    TRY(fork_stored(opened, std::get<demand::StoredVersion>(version), name));
  }
  return 0;
}

}  // namespace

const Verb kWorkspaceFork{"workspace fork", "make a new workspace that begins as a version",
                          R"(usage: turnbox workspace fork VERSION NAME [--state DIR]

Makes a new workspace that begins as VERSION and shares everything with it, at once and for no memory. Of a running sandbox's
version it lives in that sandbox's memory, as DEMAND@NAME, and can be mounted for writing. Of a stored version it is a name in the
store, for `turnbox run --from NAME` and `turnbox mount NAME DIR --write`. Prints the new version's name.

  --state DIR   where records are kept (TURNBOX_STATE)

example
  turnbox workspace fork 01JD:before fresh && turnbox run --from fresh -- make
)",
                          enter};

}  // namespace turnbox::cli
