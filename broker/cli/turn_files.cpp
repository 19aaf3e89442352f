#include <cstdio>

#include "broker/cli/open_ledger.h"
#include "broker/cli/text.h"
#include "broker/cli/verb.h"
#include "broker/turn/browse.h"
#include "vmm/sys/fd.h"

namespace turnbox::cli {
namespace {

sys::Result<int> enter_files(const Arguments& arguments) {
  Options options(kTurnFiles);
  std::string id;
  options.argument("ID", id);
  TRY(options.parse(arguments));
  TRY_ASSIGN(Opened opened, open_ledger(options));
  TRY_ASSIGN(const store::StoredRecord stored, opened.ledger.store().load_record(id));
  TRY(turn::list_files(opened.ledger, stored, [](const turn::FileEntry& entry) {
    char mode[16] = "----";
    if (entry.mode) std::snprintf(mode, sizeof mode, "%04o", *entry.mode);
    std::printf("%c %s %12llu  %s\n", entry.type, mode, static_cast<unsigned long long>(entry.size),
                printable(entry.path).c_str());
    return true;
  }));
  return 0;
}

sys::Result<int> enter_cat(const Arguments& arguments) {
  Options options(kTurnCat);
  std::string id, path;
  options.argument("ID", id);
  options.argument("PATH", path);
  TRY(options.parse(arguments));
  TRY_ASSIGN(Opened opened, open_ledger(options));
  TRY_ASSIGN(const store::StoredRecord stored, opened.ledger.store().load_record(id));
  TRY(turn::cat(opened.ledger, stored, path, [](sys::ByteSpan bytes) { return sys::write_full(1, bytes); }));
  return 0;
}

}  // namespace

const Verb kTurnFiles{"turn files", "list the files that a turn's record holds",
                      R"(usage: turnbox turn files ID [--state DIR]

Lists every file of the turn: the workspace after it (workspace/…) and before it (workspace-before/…), its inputs
(inputs/NAME/…), its outputs (outputs/STAGE/…) and its events. Columns: type, mode, size in bytes, path.

  --state DIR   where records are kept (TURNBOX_STATE)

example
  turnbox turn files 01JD | grep outputs/
)",
                      enter_files};

const Verb kTurnCat{"turn cat", "print one file of a turn",
                    R"(usage: turnbox turn cat ID PATH [--state DIR]

Prints one file of the turn, byte for byte. PATH is as `turnbox turn files` prints it. Every byte is checked against its
digest on the way.

  --state DIR   where records are kept (TURNBOX_STATE)

example
  turnbox turn cat 01JD outputs/run/result
)",
                    enter_cat};

}  // namespace turnbox::cli
