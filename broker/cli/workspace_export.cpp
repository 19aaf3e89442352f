#include <cstdio>

#include "broker/cli/text.h"
#include "broker/cli/verb.h"
#include "broker/cli/whole_file.h"
#include "broker/cli/workspace.h"
#include "broker/demand/version_export.h"

namespace turnbox::cli {
namespace {

void tell(const std::vector<std::string>& left_out) {
  for (const std::string& path : left_out) {
    std::fprintf(stderr, "turnbox: the socket '%s' has no place in an archive and was left out\n",
                 printable(path).c_str());
  }
}

sys::Status export_archive(const turn::StoredTree& tree, const std::string& file) {
  std::vector<std::string> left_out;
  const auto fill = [&](int fd) -> sys::Status {
    TRY_ASSIGN(left_out, demand::export_version_tar(tree, fd));
    return {};
  };
  TRY(file == "-" ? fill(1) : write_whole_file(file, fill));
  tell(left_out);
  return {};
}

sys::Result<int> enter(const Arguments& arguments) {
  Options options(kWorkspaceExport);
  std::string text, to;
  options.argument("VERSION", text);
  options.argument("TO", to);
  TRY(options.parse(arguments));
  TRY_ASSIGN(Opened opened, open_ledger(options));
  TRY_ASSIGN(const demand::Version version, demand::find_version(opened.places, opened.ledger.store(), text));
  TRY_ASSIGN(const auto open, OpenVersion::open(opened, version));
  if (to == "-" || to.ends_with(".tar")) {
    TRY(export_archive(open->tree(), to));
  } else {
    TRY(demand::export_directory(open->tree(), to));
  }
  return 0;
}

}  // namespace

const Verb kWorkspaceExport{"workspace export", "write any version to a directory or a tar file",
                            R"(usage: turnbox workspace export VERSION DIR|FILE.tar|- [--state DIR]

Writes a whole version: to a new or empty directory, or, where the name ends in .tar or is -, as a tar file (pax). Modes, times, links,
holes and extended attributes are kept, and as root owners and devices too. It appears whole or not at all.

  --state DIR   where records are kept (TURNBOX_STATE)

example
  turnbox workspace export 01JD:before /tmp/before
)",
                            enter};

}  // namespace turnbox::cli
