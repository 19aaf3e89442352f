#include <cstdio>
#include <thread>

#include "broker/cli/text.h"
#include "broker/cli/verb.h"
#include "broker/cli/workspace.h"
#include "broker/demand/runtime_dir.h"
#include "broker/exec/guest.h"

namespace turnbox::cli {
namespace {

using exec::Clock;

constexpr std::chrono::seconds kPatience{30};
constexpr std::chrono::milliseconds kAgain{100};

// Ends what runs and binds the epoch, again while something that was ended is still on its way out. Gives
// what would not end.
sys::Result<std::vector<std::string>> bind(const std::string& vsock, uint64_t epoch,
                                           std::vector<std::string> execs) {
  const auto until = Clock::now() + kPatience;
  while (true) {
    for (const std::string& exec : execs) (void)exec::end(vsock, exec, until);
    TRY_ASSIGN(execs, exec::try_rebind(vsock, epoch, until));
    if (execs.empty() || Clock::now() > until) return execs;
    std::this_thread::sleep_for(kAgain);
  }
}

std::string joined(const std::vector<std::string>& execs) {
  std::string text;
  for (const std::string& exec : execs) text += (text.empty() ? "" : ", ") + printable(exec);
  return text;
}

sys::Result<int> enter(const Arguments& arguments) {
  Options options(kWorkspaceRestore);
  bool end = false;
  std::string demand, text;
  options.flag("--end", end);
  options.argument("DEMAND", demand);
  options.argument("VERSION", text);
  TRY(options.parse(arguments));
  TRY_ASSIGN(const demand::VersionName version, demand::parse_version_name(text));
  if (version.kind != demand::VersionName::Kind::live || version.word != demand) {
    return sys::fail(sys::ErrorKind::usage, "'" + text + "' is no snapshot or fork of " + demand +
                                                "; a live workspace goes back to one of its own, as in " +
                                                demand + "@NAME");
  }
  TRY_ASSIGN(Opened opened, open_ledger(options));
  TRY_ASSIGN(control::Client files, demand::connect_files(opened.places, demand));
  const std::string vsock = demand::runtime_dir_of(opened.places, demand) + "/" + demand::kVsockSocket;
  TRY_ASSIGN(const control::Info info, files.info());
  // Binding the epoch that is bound already changes nothing, but is refused, naming them, while execs run.
  TRY_ASSIGN(const auto execs, exec::try_rebind(vsock, info.workspace_epoch, Clock::now() + kPatience));
  if (!execs.empty() && !end) {
    return sys::fail(sys::ErrorKind::conflict, "nothing was restored, since these run in " + demand + ": " +
                                                   joined(execs) + "; wait for them, or end them with --end");
  }
  // The new epoch first: from here on nothing that still runs can write to what comes after.
  TRY_ASSIGN(const uint64_t epoch, files.workspace_restore("@" + version.name));
  TRY_ASSIGN(const auto left, bind(vsock, epoch, execs));
  if (!left.empty()) {
    return sys::fail(
        sys::ErrorKind::conflict,
        "the workspace is restored, but not bound in the guest, since these do not end: " + joined(left));
  }
  std::printf("restored %s, epoch %llu\n", text.c_str(), static_cast<unsigned long long>(epoch));
  return 0;
}

}  // namespace

const Verb kWorkspaceRestore{"workspace restore", "put a running sandbox's workspace back to a version of it",
                             R"(usage: turnbox workspace restore DEMAND VERSION [--end] [--state DIR]

Puts the workspace of a running sandbox back to VERSION, a snapshot or fork of it (DEMAND@NAME): a new epoch, which the guest binds on
/workspace; whatever still holds the old one gets ESTALE. While commands run in it, it is refused and they are named.

  --end         end the commands that run
  --state DIR   where records are kept (TURNBOX_STATE)

example
  turnbox workspace restore run-66dyz0c1 run-66dyz0c1@before-tests --end
)",
                             enter};

}  // namespace turnbox::cli
