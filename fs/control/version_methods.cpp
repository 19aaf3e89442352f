// The methods on versions: what operators keep of a live sandbox, and how any version is looked into.
#include <boost/json/array.hpp>

#include "fs/control/change_list.h"
#include "fs/control/entry_list.h"
#include "fs/control/methods.h"
#include "fs/control/params.h"
#include "fs/turn/lift.h"
#include "vmm/sys/memfd.h"

namespace turnbox::control {
namespace {

namespace json = boost::json;
using sys::ErrorKind;
using sys::Result;

Result<fs::Attr> walk_to(const turn::Held& held, std::string_view path) {
  const std::string what = path.empty() ? "the version's root" : "this path";
  TRY_ASSIGN(fs::Attr at, turn::lift(held.snapshot.getattr(held.workspace), what));
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), name.size() + 1));
    if (name.empty()) continue;
    TRY_ASSIGN(at, turn::lift(held.snapshot.lookup(at.ino, name), what));
  }
  return at;
}

sys::Status no_fds(const Call& call) {
  if (call.fds.empty()) return {};
  return sys::fail(ErrorKind::invalid, "this method takes no descriptor");
}

}  // namespace

Result<Answer> Methods::snapshot_take(Call& call) {
  Params given(call.params);
  TRY_ASSIGN(const std::string of, given.text("of"));
  TRY_ASSIGN(const auto name, given.text_if_any("name"));
  TRY(given.finish());
  TRY(no_fds(call));
  TRY_ASSIGN(const uint64_t snapshot, world_.versions.take(of, name, call.session.id));
  return Answer{{{"snapshot", snapshot}}, {}};
}

Result<Answer> Methods::snapshot_list(Call& call) {
  TRY(Params(call.params).finish());
  TRY(no_fds(call));
  json::array rows;
  for (const turn::VersionRow& row : world_.versions.list()) {
    rows.push_back({{"name", row.name},
                    {"kind", row.fork ? "fork" : "snapshot"},
                    {"snapshot", row.snapshot},
                    {"made", row.made.sec}});
  }
  return Answer{{{"versions", std::move(rows)}}, {}};
}

Result<Answer> Methods::snapshot_fork(Call& call) {
  Params given(call.params);
  TRY_ASSIGN(const uint64_t snapshot, given.number("snapshot"));
  TRY_ASSIGN(const std::string name, given.text("name"));
  TRY(given.finish());
  TRY(no_fds(call));
  TRY(world_.versions.fork(snapshot, name));
  return Answer{};
}

Result<Answer> Methods::snapshot_drop(Call& call) {
  Params given(call.params);
  TRY_ASSIGN(const std::string name, given.text("name"));
  TRY(given.finish());
  TRY(no_fds(call));
  TRY(world_.versions.drop(name));
  world_.reclaimer.poke();
  return Answer{};
}

Result<Answer> Methods::workspace_restore(Call& call) {
  Params given(call.params);
  TRY_ASSIGN(const std::string of, given.text("of"));
  TRY(given.finish());
  TRY(no_fds(call));
  TRY_ASSIGN(const turn::Lease lease, world_.versions.read(of));
  auto epoch = world_.workspace.restore(lease->snapshot, lease->workspace);
  world_.reclaimer.poke();
  if (!epoch) return tl::make_unexpected(epoch.error());
  return Answer{{{"epoch", *epoch}}, {}};
}

Result<Answer> Methods::tree_list(Call& call) {
  Params given(call.params);
  TRY_ASSIGN(const std::string of, given.text("of"));
  TRY_ASSIGN(const std::string path, given.bytes("path"));
  TRY(given.finish());
  TRY(no_fds(call));
  TRY_ASSIGN(const turn::Lease lease, world_.versions.read(of));
  TRY_ASSIGN(const fs::Attr at, walk_to(*lease, path));
  sys::Bytes rows;
  uint64_t entries = 0;
  const auto add = [&](const fs::Attr& attr, std::string_view name) {
    append_entry(rows, {.type = letter_of(attr.type),
                        .mode = attr.mode,
                        .uid = attr.uid,
                        .gid = attr.gid,
                        .size = attr.size,
                        .mtime_sec = attr.mtime.sec,
                        .mtime_nsec = attr.mtime.nsec,
                        .name = std::string(name)});
    ++entries;
    return rows.size() < kMaxBulk;
  };
  if (at.type != fs::Type::directory) {
    add(at, "");
  } else {
    TRY(turn::lift(lease->snapshot.readdir(at.ino, 0,
                                           [&](const fs::Dirent& entry) {
                                             const auto attr = lease->snapshot.getattr(entry.ino);
                                             return !attr || add(*attr, entry.name);
                                           }),
                   "the directory"));
  }
  if (rows.size() >= kMaxBulk) return sys::fail(ErrorKind::limit, "the directory's list passes 256 MiB");
  Answer answer{{{"type", std::string(1, letter_of(at.type))}, {"entries", entries}}, {}};
  TRY_ASSIGN(answer.fds.emplace_back(), sys::memfd_with("turnbox-list", rows));
  return answer;
}

Result<Answer> Methods::tree_read(Call& call) {
  Params given(call.params);
  TRY_ASSIGN(const std::string of, given.text("of"));
  TRY_ASSIGN(const std::string path, given.bytes("path"));
  TRY_ASSIGN(const uint64_t offset, given.number("offset"));
  TRY(given.finish());
  TRY(no_fds(call));
  TRY_ASSIGN(const turn::Lease lease, world_.versions.read(of));
  TRY_ASSIGN(const fs::Attr at, walk_to(*lease, path));
  sys::Bytes bytes;
  if (at.type == fs::Type::symlink) {
    TRY_ASSIGN(const std::string_view target, turn::lift(lease->snapshot.readlink(at.ino), "this symlink"));
    sys::append(bytes, sys::as_bytes(target.substr(std::min<size_t>(offset, target.size()))));
  } else if (at.type == fs::Type::regular) {
    std::vector<std::span<const std::byte>> spans;
    TRY(turn::lift(lease->snapshot.read(at.ino, offset, kReadPiece, spans), "this file"));
    for (const auto& span : spans) sys::append(bytes, span);
  } else {
    return sys::fail(ErrorKind::invalid, "this path is no file");
  }
  Answer answer{{{"type", std::string(1, letter_of(at.type))}, {"size", at.size}}, {}};
  TRY_ASSIGN(answer.fds.emplace_back(), sys::memfd_with("turnbox-read", bytes));
  return answer;
}

}  // namespace turnbox::control
