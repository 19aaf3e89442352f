#include "broker/cli/verb.h"
#include "broker/cli/workspace.h"

namespace turnbox::cli {
namespace {

sys::Result<int> enter(const Arguments& arguments) {
  Options options(kWorkspaceRm);
  std::string text;
  options.argument("VERSION", text);
  TRY(options.parse(arguments));
  TRY_ASSIGN(const demand::VersionName name, demand::parse_version_name(text));
  if (name.kind == demand::VersionName::Kind::turn) {
    return sys::fail(sys::ErrorKind::refused,
                     "what a turn's record names stays with the record; forks and snapshots can go");
  }
  TRY_ASSIGN(Opened opened, open_ledger(options));
  if (name.kind == demand::VersionName::Kind::word) {
    TRY(opened.ledger.store().erase_workspace(name.word));
    return 0;
  }
  TRY_ASSIGN(control::Client files, demand::connect_files(opened.places, name.word));
  TRY(files.drop(name.name));
  return 0;
}

}  // namespace

const Verb kWorkspaceRm{"workspace rm", "remove a snapshot or a fork",
                        R"(usage: turnbox workspace rm VERSION [--state DIR]

Removes a snapshot or fork of a running sandbox (DEMAND@NAME), or a fork of the store (its name; the objects stay with the turn that
it came from).

  --state DIR   where records are kept (TURNBOX_STATE)

example
  turnbox workspace rm run-66dyz0c1@before-tests
)",
                        enter};

}  // namespace turnbox::cli
