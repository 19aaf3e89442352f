// The turnbox command: finds the verb, prints help, turns an error into one sentence and an exit status.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "broker/cli/verb.h"
#include "broker/demand/operator_mount.h"
#include "vmm/sys/log.h"

namespace turnbox::cli {
namespace {

constexpr const Verb* kVerbs[] = {
    &kRun,         &kDoctor,        &kImageBuild,        &kImageList,        &kImageVerify,
    &kTurnList,    &kTurnShow,      &kTurnFiles,         &kTurnCat,          &kTurnVerify,
    &kTurnExport,  &kWorkspaceList, &kWorkspaceSnapshot, &kWorkspaceFork,    &kWorkspaceDiff,
    &kWorkspaceLs, &kWorkspaceCat,  &kWorkspaceExport,   &kWorkspaceRestore, &kWorkspaceRm,
    &kMount,
};

constexpr const char* kIntroduction =
    "turnbox runs untrusted commands in disposable microVMs and keeps one verifiable record per turn.\n"
    "\n"
    "usage: turnbox VERB [OPTION]…\n"
    "\n";

constexpr const char* kClosing =
    "\n"
    "Every verb has --help and takes --state DIR (or TURNBOX_STATE): where images, records and keys are "
    "kept.\n"
    "Exit status: 0 done, 2 usage, 125 turnbox failed; `turnbox run` passes on the command's own.\n";

void print_overview(std::ostream& out, const char* group) {
  if (group == nullptr) out << kIntroduction;
  for (const Verb* verb : kVerbs) {
    if (group != nullptr && !std::string_view(verb->name).starts_with(group)) continue;
    std::string name = verb->name;
    name.resize(20, ' ');
    out << "  " << name << verb->summary << "\n";
  }
  if (group == nullptr) out << kClosing;
}

bool asks_help(const std::vector<std::string>& words) {
  for (const auto& word : words) {
    if (word == "--help" || word == "-h") return true;
  }
  return false;
}

// Verbs have one or two words.
const Verb* find_verb(std::vector<std::string>& words) {
  for (const Verb* verb : kVerbs) {
    const std::string_view name = verb->name;
    const size_t space = name.find(' ');
    const bool two = space != std::string_view::npos;
    if (words.size() < (two ? 2u : 1u) || words[0] != name.substr(0, space)) continue;
    if (two && words[1] != name.substr(space + 1)) continue;
    words.erase(words.begin(), words.begin() + (two ? 2 : 1));
    return verb;
  }
  return nullptr;
}

sys::Result<int> no_such_verb(const std::vector<std::string>& words) {
  if (words.empty()) return sys::fail(sys::ErrorKind::usage, "no verb given; see turnbox --help");
  for (const char* group : {"turn", "image", "workspace"}) {
    if (words[0] != group) continue;
    if (words.size() > 1 && words[1][0] != '-') {
      return sys::fail(sys::ErrorKind::usage, "turnbox " + words[0] + " has no verb " + words[1] +
                                                  "; see turnbox " + words[0] + " --help");
    }
    if (asks_help(words)) {
      print_overview(std::cout, group);
      return 0;
    }
    return sys::fail(sys::ErrorKind::usage,
                     std::string("turnbox ") + group + " needs a verb; see turnbox " + group + " --help");
  }
  return sys::fail(sys::ErrorKind::usage, "turnbox has no verb " + words[0] + "; see turnbox --help");
}

constexpr int kGuardPipe = 3;

sys::Result<int> enter(std::vector<std::string> words) {
  if (words.size() == 3 && words[0] == kMountGuard) {
    demand::guard_mount(kGuardPipe, words[1], words[2]);
    return 0;
  }
  Arguments arguments;
  const auto dashes = std::find(words.begin(), words.end(), "--");
  if (dashes != words.end()) {
    arguments.dashes = true;
    arguments.after.assign(dashes + 1, words.end());
    words.erase(dashes, words.end());
  }
  if (!words.empty() && (words[0] == "--help" || words[0] == "-h" || words[0] == "help")) {
    print_overview(std::cout, nullptr);
    return 0;
  }
  if (!words.empty() && words[0] == "--version") {
    std::cout << "turnbox " TURNBOX_VERSION "\n";
    return 0;
  }
  const Verb* verb = find_verb(words);
  if (verb == nullptr) return no_such_verb(words);
  if (asks_help(words)) {
    std::cout << verb->help;
    return 0;
  }
  arguments.before = std::move(words);
  return verb->enter(arguments);
}

}  // namespace
}  // namespace turnbox::cli

int main(int argc, char** argv) {
  using namespace turnbox;
  std::signal(SIGPIPE, SIG_IGN);
  sys::start_log("turnbox");
  sys::Result<int> status = 0;
  try {
    status = cli::enter({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    status = sys::fail(sys::ErrorKind::io, std::string("unexpected failure: ") + e.what());
  }
  if (!status) {
    std::cerr << "turnbox: " << status.error().text << "\n";
    return status.error().kind == sys::ErrorKind::usage ? 2 : 125;
  }
  std::cout.flush();
  if (!std::cout) {
    std::cerr << "turnbox: cannot write to standard output\n";
    return 125;
  }
  return *status;
}
