#include <cstdio>

#include "broker/cli/text.h"
#include "broker/cli/verb.h"
#include "broker/cli/workspace.h"

namespace turnbox::cli {
namespace {

// The first of snap-1, snap-2, … that nobody has.
sys::Result<std::string> take_unnamed(control::Client& files, const std::string& of) {
  for (unsigned i = 1;; ++i) {
    const std::string name = "snap-" + std::to_string(i);
    const auto taken = files.snapshot_take(of, name);
    if (taken) return name;
    if (taken.error().kind != sys::ErrorKind::conflict) return tl::make_unexpected(taken.error());
  }
}

sys::Result<int> enter(const Arguments& arguments) {
  Options options(kWorkspaceSnapshot);
  std::string text, name;
  options.argument("DEMAND", text);
  options.argument("NAME", name, Options::Presence::optional);
  TRY(options.parse(arguments));
  if (!name.empty()) TRY(demand::check_version_name(name));
  TRY_ASSIGN(Opened opened, open_ledger(options));
  TRY_ASSIGN(const demand::LiveVersion live, live_version(opened, text));
  TRY_ASSIGN(control::Client files, demand::connect_files(opened.places, live.demand));
  const bool flushed = live.of != "workspace" || flush_guest(opened.places, live.demand);
  if (name.empty()) {
    TRY_ASSIGN(name, take_unnamed(files, live.of));
  } else {
    TRY(files.snapshot_take(live.of, name));
  }
  if (!flushed)
    std::fprintf(stderr,
                 "turnbox: the guest did not write everything back in time; what it holds is not in it\n");
  std::printf("%s@%s\n", live.demand.c_str(), name.c_str());
  return 0;
}

}  // namespace

const Verb kWorkspaceSnapshot{"workspace snapshot", "keep a running sandbox's workspace as it is now",
                              R"(usage: turnbox workspace snapshot DEMAND [NAME] [--state DIR]

Asks the guest to write back what it holds, then keeps the workspace as it is, under NAME (without one: snap-1, snap-2, …), and prints
the version's name, DEMAND@NAME. It costs nothing and lives as long as the sandbox. DEMAND@FORK keeps a fork as it is.

  --state DIR   where records are kept (TURNBOX_STATE)

example
  turnbox workspace snapshot run-66dyz0c1 before-tests
)",
                              enter};

}  // namespace turnbox::cli
