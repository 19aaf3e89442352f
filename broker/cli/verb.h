// What every verb of the command shares: where it prints, how it fails, and how it is entered.
//
// A verb is one file with one function `int NAME(const Arguments&)`-like entry, listed in the table of
// main.cpp. It returns the exit status; an Error that reaches main is printed as «turnbox: sentence» with
// status 125, or 2 when its kind is usage.
#pragma once

#include <string>
#include <vector>

#include "vmm/sys/result.h"

namespace turnbox::cli {

// The words behind the verb, split at the first «--».
struct Arguments {
  std::vector<std::string> before;
  std::vector<std::string> after;
  bool dashes = false;  // «--» was given
};

struct Verb {
  const char* name;     // as typed: «run», «turn list»
  const char* summary;  // one line of `turnbox --help`
  const char* help;     // the whole text of `turnbox NAME --help`
  sys::Result<int> (*enter)(const Arguments& arguments);
};

extern const Verb kRun, kDoctor, kImageBuild, kImageList, kImageVerify;
extern const Verb kMount;
extern const Verb kTurnList, kTurnShow, kTurnFiles, kTurnCat, kTurnVerify, kTurnExport;

// How this program is told to be a mount's guard (broker/demand/operator_mount.h): a word that is no verb of
// a person.
inline constexpr char kMountGuard[] = "guard-mount";

extern const Verb kWorkspaceList, kWorkspaceSnapshot, kWorkspaceFork, kWorkspaceDiff, kWorkspaceLs,
    kWorkspaceCat;
extern const Verb kWorkspaceExport, kWorkspaceRestore, kWorkspaceRm;

}  // namespace turnbox::cli
