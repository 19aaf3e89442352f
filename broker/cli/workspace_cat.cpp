#include "broker/cli/verb.h"
#include "broker/cli/workspace.h"
#include "vmm/sys/fd.h"

namespace turnbox::cli {
namespace {

sys::Status print(sys::ByteSpan bytes) {
  return sys::write_full(1, bytes);
}

sys::Status cat_stored(Opened& opened, const demand::StoredVersion& version, const std::string& path) {
  TRY_ASSIGN(const auto open, OpenVersion::open(opened, version));
  TRY_ASSIGN(const auto at, open->tree().find(path));
  if (!at) return sys::fail(sys::ErrorKind::not_found, version.shown + " has no '" + path + "'");
  if (at->type == 'f') return open->tree().content(at->digest, print);
  if (at->type != 'l')
    return sys::fail(sys::ErrorKind::usage, "'" + path + "' is no file: `turnbox workspace ls` lists it");
  TRY_ASSIGN(const std::string target, open->tree().target(at->digest));
  return print(sys::as_bytes(target));
}

sys::Status cat_live(Opened& opened, const demand::LiveVersion& version, const std::string& path) {
  TRY_ASSIGN(control::Client files, demand::connect_files(opened.places, version.demand));
  // One moment of it, however many pieces are read.
  std::string of = version.of;
  TRY_ASSIGN(const control::SnapshotId snapshot, files.snapshot_take(of));
  of = "snapshot:" + std::to_string(snapshot);
  auto read = files.read(of, path, print);
  if (!read) return sys::context("'" + path + "'", read.error());
  return {};
}

sys::Result<int> enter(const Arguments& arguments) {
  Options options(kWorkspaceCat);
  std::string text, path;
  options.argument("VERSION", text);
  options.argument("PATH", path);
  TRY(options.parse(arguments));
  TRY_ASSIGN(Opened opened, open_ledger(options));
  TRY_ASSIGN(const demand::Version version, demand::find_version(opened.places, opened.ledger.store(), text));
  const auto* stored = std::get_if<demand::StoredVersion>(&version);
  if (stored != nullptr) {
    TRY(cat_stored(opened, *stored, path));
  } else {
    TRY(cat_live(opened, std::get<demand::LiveVersion>(version), path));
  }
  return 0;
}

}  // namespace

const Verb kWorkspaceCat{"workspace cat", "print a file of any version, without a machine",
                         R"(usage: turnbox workspace cat VERSION PATH [--state DIR]

Prints one file of a version, byte for byte (of a symlink: its target). Bytes of a stored version are checked against their digests on
the way. VERSION is as for `turnbox workspace ls`; a running sandbox shows what its guest has written back.

  --state DIR   where records are kept (TURNBOX_STATE)

example
  turnbox workspace cat 01JD src/main.c
)",
                         enter};

}  // namespace turnbox::cli
