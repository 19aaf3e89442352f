#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "broker/cli/text.h"
#include "broker/cli/verb.h"
#include "broker/cli/workspace.h"
#include "broker/demand/version_export.h"
#include "vmm/sys/fd.h"

namespace turnbox::cli {
namespace {

void tell(const std::vector<std::string>& left_out) {
  for (const std::string& path : left_out) {
    std::fprintf(stderr, "turnbox: the socket '%s' has no place in an archive and was left out\n",
                 printable(path).c_str());
  }
}

// Written beside and renamed, so that a failed export leaves no half a file.
sys::Status export_archive(const turn::StoredTree& tree, const std::string& file) {
  if (file == "-") {
    TRY_ASSIGN(const auto left_out, demand::export_version_tar(tree, 1));
    tell(left_out);
    return {};
  }
  std::string beside = file + ".XXXXXX";
  const sys::Fd fd(::mkostemp(beside.data(), O_CLOEXEC));
  if (!fd) return sys::fail_errno("cannot write beside " + file);
  auto written = demand::export_version_tar(tree, fd.get());
  if (written && (::fchmod(fd.get(), 0644) < 0 || ::rename(beside.c_str(), file.c_str()) < 0))
    written = sys::fail_errno("cannot write " + file);
  if (!written) {
    ::unlink(beside.c_str());
    return tl::make_unexpected(written.error());
  }
  tell(*written);
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
