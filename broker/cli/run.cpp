#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "broker/cli/options.h"
#include "broker/cli/progress.h"
#include "broker/cli/signals.h"
#include "broker/cli/text.h"
#include "broker/cli/verb.h"
#include "broker/demand/places.h"
#include "broker/demand/run.h"
#include "vmm/sys/fd.h"

namespace turnbox::cli {
namespace {

using sys::ErrorKind;

constexpr size_t kChangesShown = 40;

sys::Result<std::pair<std::string, std::string>> split(const std::string& option, const std::string& text,
                                                       const char* shape) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return sys::fail(ErrorKind::usage, option + " " + text + " is not of the form " + shape);
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

// An input's name becomes one directory entry in the guest.
sys::Status check_input(const std::string& name, const std::string& path) {
  if (name.find('/') != std::string::npos) {
    return sys::fail(
        ErrorKind::usage,
        "the input name " + name + " holds a /; an input has a plain name, as in --input data=" + path);
  }
  if (name == "." || name == ".." || name.size() > 255) {
    return sys::fail(ErrorKind::usage, "the input name " + name + " cannot name a file; choose another");
  }
  if (path.empty())
    return sys::fail(ErrorKind::usage, "the input " + name + " has no path; write --input " + name + "=PATH");
  return {};
}

sys::Status read_inputs(const std::vector<std::string>& words, demand::RunSpec& spec) {
  for (const auto& word : words) {
    TRY_ASSIGN(auto input, split("--input", word, "NAME=PATH"));
    TRY(check_input(input.first, input.second));
    for (const auto& [name, path] : spec.inputs) {
      if (name == input.first) return sys::fail(ErrorKind::usage, "the input " + name + " is given twice");
    }
    spec.inputs.push_back(std::move(input));
  }
  return {};
}

struct Words {
  std::string tier;
  std::vector<std::string> inputs, env;
  double timeout = 0;
  double boot_deadline = 60;
  bool quiet = false;
};

void declare(Options& options, Words& words, demand::RunSpec& spec) {
  options.choice("--tier", words.tier, {"hardware", "emulated"});
  options.text("--image", spec.image);
  options.text("--workspace", spec.workspace);
  options.text("--from", spec.from);
  options.flag("--apply", spec.apply);
  options.texts("--input", words.inputs);
  options.texts("--env", words.env);
  options.number("--memory", spec.memory_mib, 1, 1u << 20);
  options.number("--vcpus", spec.vcpus, 1, 64);
  options.seconds("--timeout", words.timeout);
  options.seconds("--boot-timeout", words.boot_deadline);
  options.text("--record", spec.record_file);
  options.text("--connect", spec.connect);
  options.flag("--quiet,-q", words.quiet);
}

sys::Result<demand::RunSpec> spec_of(const Arguments& arguments, const Words& words, demand::RunSpec spec) {
  if (arguments.after.empty()) {
    return sys::fail(ErrorKind::usage, "no command given; put it behind --, as in turnbox run -- uname -a");
  }
  if (!spec.from.empty() && !spec.workspace.empty())
    return sys::fail(ErrorKind::usage,
                     "--workspace and --from both say what /workspace begins as; give one of them");
  if (spec.apply && spec.workspace.empty())
    return sys::fail(ErrorKind::usage, "--apply writes back to the directory of --workspace; give one");
  spec.command = arguments.after;
  if (!words.tier.empty()) {
    spec.tier = words.tier == "hardware" ? domain::Tier::hardware : domain::Tier::emulated;
  }
  TRY(read_inputs(words.inputs, spec));
  for (const auto& word : words.env) {
    TRY_ASSIGN(auto pair, split("--env", word, "K=V"));
    spec.env.push_back(std::move(pair));
  }
  if (words.timeout > 0) spec.timeout = std::chrono::milliseconds(static_cast<int64_t>(words.timeout * 1000));
  spec.boot_deadline = std::chrono::milliseconds(static_cast<int64_t>(words.boot_deadline * 1000));
  return spec;
}

void print_applied(const demand::Applied& applied, bool quiet) {
  for (const std::string& note : applied.notes)
    std::fprintf(stderr, "turnbox: %s\n", printable(note).c_str());
  if (quiet) return;
  std::fprintf(stderr, "turnbox: applied %llu added, %llu changed, %llu removed\n",
               static_cast<unsigned long long>(applied.added),
               static_cast<unsigned long long>(applied.changed),
               static_cast<unsigned long long>(applied.removed));
}

void print_report(const demand::RunReport& report) {
  size_t shown = 0;
  for (const auto& row : report.changes) {
    if (++shown > kChangesShown) break;
    std::fprintf(stderr, "  %c %s\n", row.change, printable(row.path).c_str());
  }
  if (report.changes.size() > kChangesShown) {
    std::fprintf(stderr, "  … and %zu more; see turnbox turn files %s\n",
                 report.changes.size() - kChangesShown, report.turn.c_str());
  }
  const std::string status =
      report.reason.empty() ? report.status : report.status + " (" + report.reason + ")";
  std::fprintf(stderr, "turn     %s\nstatus   %s, %s\ntier     %s\ntime     boot %s, run %s\n",
               report.turn.c_str(), status.c_str(), report.ended.c_str(), report.tier.c_str(),
               seconds(report.boot).c_str(), seconds(report.run).c_str());
  std::fprintf(stderr, "changes  +%llu ~%llu -%llu\nrecord   %s\n",
               static_cast<unsigned long long>(report.added), static_cast<unsigned long long>(report.changed),
               static_cast<unsigned long long>(report.removed), report.record_digest.c_str());
}

sys::Result<int> enter(const Arguments& arguments) {
  Options options(kRun);
  Words words;
  demand::RunSpec spec;
  declare(options, words, spec);
  TRY(options.parse(arguments, true));
  TRY_ASSIGN(spec, spec_of(arguments, words, std::move(spec)));
  TRY_ASSIGN(const demand::Places places, demand::find_places(options.state()));
  TRY_ASSIGN(const sys::Fd signals, signals_as_descriptor());
  Progress progress(!words.quiet);
  demand::RunHooks hooks;
  hooks.phase = [&](const std::string& text) { text.empty() ? progress.clear() : progress.show(text); };
  hooks.cancel_fd = signals.get();
  hooks.cancel_signal = [&]() -> int {
    signalfd_siginfo info{};
    if (::read(signals.get(), &info, sizeof info) != sizeof info) return 0;
    return static_cast<int>(info.ssi_signo);
  };
  auto report = demand::run(places, spec, hooks);
  progress.clear();
  if (!report) return tl::make_unexpected(std::move(report).error());
  if (!report->not_applied.empty())
    std::fprintf(stderr, "turnbox: %s\n", printable(report->not_applied).c_str());
  if (!report->failure.empty()) std::fprintf(stderr, "turnbox: %s\n", report->failure.c_str());
  if (!words.quiet) print_report(*report);
  if (report->applied) print_applied(*report->applied, words.quiet);
  return report->exit_status;
}

}  // namespace

const Verb kRun{"run", "run a command in a fresh microVM and keep the turn's record",
                R"(usage: turnbox run [OPTION]… -- CMD [ARG]…

Boots a fresh microVM, runs CMD in /workspace, passes standard input, output and error through, and keeps
one signed record of the turn. The VM and everything in it is gone afterwards.

what goes in
  --workspace DIR     copy DIR into /workspace; DIR itself is not touched, except by --apply
  --from VERSION      begin with a stored version instead: TURN, TURN:before or a fork (turnbox workspace list)
  --input NAME=PATH   a file or directory, read-only at $TURNBOX_INPUTS/NAME (may be repeated)
  --env K=V           one variable of the command's environment (may be repeated)

the machine
  --tier TIER         hardware (KVM) or emulated; refused when it cannot be had. Default: the best there is
  --image NAME        guest image by name or digest. Default: default
  --memory MIB        default 512
  --vcpus N           default 1
  --connect URI       libvirt connection. Default: qemu:///embed below the runtime directory

limits and results
  --apply             once the turn completed, write its changes back to DIR: file by file, each at once; nothing at
                      all where a file changed on the host meanwhile. Set-user-id bits and devices are never written
  --timeout SECONDS   end the command, and all it started, after that time
  --boot-timeout SECONDS  give up when the guest has not answered by then. Default: 60
  --record FILE       write the record to FILE as well
  --quiet, -q         no progress, no summary
  --state DIR         where images, records and keys are kept (TURNBOX_STATE)

The command finds TURNBOX_TURN, TURNBOX_STAGE, TURNBOX_INPUTS and TURNBOX_OUTPUTS in its environment; what it writes to
$TURNBOX_OUTPUTS is the turn's output.

exit status
  the command's own; 124 time-out; 125 turnbox failed; 126 not executable; 127 not found;
  128+N killed by signal N; 130 and 143 cancelled by SIGINT and SIGTERM

example
  turnbox run --workspace . --timeout 60 -- sh -c 'make test > $TURNBOX_OUTPUTS/log'
)",
                enter};

}  // namespace turnbox::cli
