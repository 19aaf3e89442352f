#include "broker/turn/browse.h"

#include "broker/turn/object_walk.h"

namespace turnbox::turn {

using sys::ErrorKind;
using sys::Result;
using sys::Status;

namespace {

struct Place {
  std::string name;
  char type;  // d or f
  sys::Digest content;
};

std::vector<Place> places_of(const Draft& draft) {
  std::vector<Place> places;
  const auto add = [&](std::string name, const TreeCapture& capture) {
    if (const auto* ref = std::get_if<TreeRef>(&capture)) {
      places.push_back({std::move(name), ref->kind == store::ObjectKind::dir ? 'd' : 'f', ref->content});
    }
  };
  add("workspace-before", draft.workspace_before);
  add("workspace", draft.workspace_after);
  for (const Input& input : draft.inputs) add("inputs/" + input.name, input.tree);
  for (const Stage& stage : draft.stages) add("outputs/" + stage.name, stage.outputs);
  if (const auto* ref = std::get_if<EventsRef>(&draft.events)) places.push_back({"events", 'f', ref->digest});
  return places;
}

Result<uint64_t> size_of(ObjectWalk& walk, const Entry& entry) {
  if (entry.type == 'f') return walk.file_size(entry.digest);
  if (entry.type != 'l') return uint64_t{0};
  sys::Bytes scratch;
  TRY_ASSIGN(const sys::ByteSpan target, walk.read(store::ObjectKind::symlink, entry.digest, scratch));
  return target.size();
}

// The entry at `path` below a root, by descending: only the directories on the way are read.
Result<std::optional<Entry>> find(ObjectWalk& walk, const Place& place, std::string_view path) {
  Entry at{"", place.type, 0, place.content};
  sys::Bytes scratch;
  while (!path.empty()) {
    if (at.type != 'd') return std::optional<Entry>();
    const std::string_view name = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), name.size() + 1));
    TRY_ASSIGN(const sys::ByteSpan rows, walk.read(store::ObjectKind::dir, at.digest, scratch));
    std::optional<Entry> next;
    const auto match = [&](const store::DirRow& row) -> Status {
      if (row.name == name) next = Entry{std::string(name), row.type, row.mode, row.digest};
      return {};
    };
    TRY(store::read_dir(rows, match));
    if (!next) return next;
    at = *next;
  }
  return std::optional(at);
}

}  // namespace

Status list_files(Ledger& ledger, const store::StoredRecord& stored,
                  const std::function<bool(const FileEntry&)>& visit) {
  TRY_ASSIGN(const store::Reader reader, ledger.store().read());
  TRY_ASSIGN(const Record record, read_record(stored.record.bytes));
  ObjectWalk walk(reader, stored.account);
  bool more = true;
  for (const Place& place : places_of(record.draft)) {
    const auto show = [&](const Entry& entry) -> Result<bool> {
      TRY_ASSIGN(const uint64_t size, size_of(walk, entry));
      const std::string path = entry.path.empty() ? place.name : place.name + "/" + entry.path;
      const auto mode = entry.path.empty() ? std::optional<uint32_t>() : std::optional(entry.mode);
      return more = visit({path, entry.type, mode, size, entry.digest});
    };
    TRY(walk.walk(place.type, place.content, show));
    if (!more) break;
  }
  return {};
}

Status cat(Ledger& ledger, const store::StoredRecord& stored, std::string_view path,
           const std::function<Status(sys::ByteSpan)>& sink) {
  TRY_ASSIGN(const store::Reader reader, ledger.store().read());
  TRY_ASSIGN(const Record record, read_record(stored.record.bytes));
  ObjectWalk walk(reader, stored.account);
  for (const Place& place : places_of(record.draft)) {
    if (path != place.name && !path.starts_with(place.name + "/")) continue;
    TRY_ASSIGN(const auto entry,
               find(walk, place, path.substr(std::min(path.size(), place.name.size() + 1))));
    if (!entry) break;
    if (entry->type == 'f') return walk.content(entry->digest, sink);
    if (entry->type == 'l') {
      sys::Bytes scratch;
      TRY_ASSIGN(const sys::ByteSpan target, walk.read(store::ObjectKind::symlink, entry->digest, scratch));
      return sink(target);
    }
    return sys::fail(ErrorKind::usage,
                     "'" + std::string(path) + "' is no file: `turnbox turn files` lists what is below it");
  }
  return sys::fail(ErrorKind::not_found, "turn " + stored.turn + " has no '" + std::string(path) +
                                             "'; `turnbox turn files` lists what it has");
}

}  // namespace turnbox::turn
