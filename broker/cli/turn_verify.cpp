#include <cstdio>
#include <iostream>

#include "broker/cli/open_ledger.h"
#include "broker/cli/text.h"
#include "broker/cli/verb.h"
#include "broker/cli/whole_file.h"
#include "broker/turn/export.h"
#include "broker/turn/verify.h"

namespace turnbox::cli {
namespace {

void print(const turn::Finding& finding) {
  std::printf("  %s %s: %s\n", finding.wrong ? "WRONG" : "note ", printable(finding.what).c_str(),
              printable(finding.text).c_str());
}

sys::Result<int> enter_verify(const Arguments& arguments) {
  Options options(kTurnVerify);
  std::string id;
  options.argument("ID", id);
  TRY(options.parse(arguments));
  TRY_ASSIGN(Opened opened, open_ledger(options));
  TRY_ASSIGN(const turn::Verification found, turn::verify(opened.ledger, id));
  std::printf("turn     %s\nrecord   %s\nchecked  %llu objects, %s\n", found.turn.c_str(),
              to_hex(found.record).c_str(), static_cast<unsigned long long>(found.objects),
              bytes(found.bytes).c_str());
  for (const auto& finding : found.findings) print(finding);
  std::cout << (found.good() ? "result   GOOD: every digest, the signature and the chain hold\n"
                             : "result   BAD: do not trust this record\n");
  return found.good() ? 0 : 1;
}

sys::Result<int> enter_export(const Arguments& arguments) {
  Options options(kTurnExport);
  std::string id, file;
  options.argument("ID", id);
  options.argument("FILE", file);
  TRY(options.parse(arguments));
  TRY_ASSIGN(Opened opened, open_ledger(options));
  if (file == "-") {
    TRY(turn::export_tar(opened.ledger, id, 1));
  } else {
    TRY(write_whole_file(file, [&](int fd) { return turn::export_tar(opened.ledger, id, fd); }));
  }
  return 0;
}

}  // namespace

const Verb kTurnVerify{"turn verify", "recompute every digest of a turn's record",
                       R"(usage: turnbox turn verify ID [--state DIR]

Recomputes every digest that the record names from the stored bytes, and checks its signature, its place in the chain
of its demand, and the signed checkpoint. Exit status: 0 everything holds, 1 something is wrong (it is named).

  --state DIR   where records are kept (TURNBOX_STATE)

example
  turnbox turn verify 01JD
)",
                       enter_verify};

const Verb kTurnExport{"turn export", "write a turn as a tar file that anybody can check",
                       R"(usage: turnbox turn export ID FILE [--state DIR]

Writes the record, its signature, the public key and every object to FILE (- is standard output), as a tar file. The same turn
gives the same bytes. docs/verify.py checks such a file with nothing but Python's standard library.

  --state DIR   where records are kept (TURNBOX_STATE)

example
  turnbox turn export 01JD turn.tar && python3 docs/verify.py turn.tar
)",
                       enter_export};

}  // namespace turnbox::cli
