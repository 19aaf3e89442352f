// The client's half of versions.
#include <boost/json/array.hpp>

#include "fs/control/answer.h"
#include "fs/control/client.h"
#include "vmm/sys/memfd.h"

namespace turnbox::control {
namespace {

namespace json = boost::json;
using sys::ErrorKind;
using sys::Result;
using sys::Status;

json::value bytes_value(std::string_view bytes) {
  if (sys::is_utf8(bytes)) return json::value(bytes);
  return json::object{{"b16", sys::to_hex(sys::as_bytes(bytes))}};
}

}  // namespace

Result<SnapshotId> Client::snapshot_take(std::string_view of, std::string_view name) {
  json::object params{{"of", of}};
  if (!name.empty()) params["name"] = name;
  TRY_ASSIGN(const Answer answer, call("snapshot.take", std::move(params)));
  return number(answer.result, "snapshot");
}

Result<std::vector<Version>> Client::versions() {
  TRY_ASSIGN(const Answer answer, call("snapshot.list", {}));
  const json::value* rows = answer.result.if_contains("versions");
  if (rows == nullptr || !rows->is_array()) return broken("versions");
  std::vector<Version> versions;
  for (const json::value& row : rows->get_array()) {
    if (!row.is_object()) return broken("versions");
    Version version;
    TRY_ASSIGN(version.name, text(row.get_object(), "name"));
    const auto kind = text(row.get_object(), "kind");
    if (!kind) return tl::make_unexpected(kind.error());
    version.fork = *kind == "fork";
    TRY_ASSIGN(version.snapshot, number(row.get_object(), "snapshot"));
    TRY_ASSIGN(const uint64_t made, number(row.get_object(), "made"));
    version.made_sec = static_cast<int64_t>(made);
    versions.push_back(std::move(version));
  }
  return versions;
}

Status Client::snapshot_fork(SnapshotId snapshot, std::string_view name) {
  TRY(call("snapshot.fork", {{"snapshot", snapshot}, {"name", name}}));
  return {};
}

Status Client::drop(std::string_view name) {
  TRY(call("snapshot.drop", {{"name", name}}));
  return {};
}

Result<uint64_t> Client::workspace_restore(std::string_view of) {
  TRY_ASSIGN(const Answer answer, call("workspace.restore", {{"of", of}}));
  return number(answer.result, "epoch");
}

Result<std::vector<ListedEntry>> Client::list(std::string_view of, std::string_view path) {
  TRY_ASSIGN(Answer answer, call("tree.list", {{"of", of}, {"path", bytes_value(path)}}, {}, 1));
  TRY_ASSIGN(const sys::Mapping rows, sys::map_sealed(answer.fds[0].get(), kMaxBulk));
  std::vector<ListedEntry> entries;
  TRY(read_entry_list(rows.bytes(), [&](ListedEntry entry) { entries.push_back(std::move(entry)); }));
  return entries;
}

Status Client::read(std::string_view of, std::string_view path,
                    const std::function<Status(sys::ByteSpan)>& sink) {
  uint64_t size = 0, offset = 0;
  do {
    TRY_ASSIGN(Answer answer,
               call("tree.read", {{"of", of}, {"path", bytes_value(path)}, {"offset", offset}}, {}, 1));
    TRY_ASSIGN(size, number(answer.result, "size"));
    TRY_ASSIGN(const sys::Mapping piece, sys::map_sealed(answer.fds[0].get(), kMaxBulk));
    if (piece.bytes().empty()) break;
    TRY(sink(piece.bytes()));
    offset += piece.bytes().size();
  } while (offset < size);
  return {};
}

}  // namespace turnbox::control
