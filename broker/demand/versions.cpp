#include "broker/demand/versions.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "broker/demand/runtime_dir.h"
#include "broker/turn/record.h"
#include "vmm/sys/socket.h"

namespace turnbox::demand {
namespace {

using sys::ErrorKind;
using sys::Result;

Result<const turn::TreeCapture*> capture_at(const turn::Draft& draft, const std::string& place) {
  if (place == "after") return &draft.workspace_after;
  if (place == "before") return &draft.workspace_before;
  for (const turn::Stage& stage : draft.stages) {
    if (place == "outputs/" + stage.name) return &stage.outputs;
  }
  for (const turn::Input& input : draft.inputs) {
    if (place == "inputs/" + input.name) return &input.tree;
  }
  return sys::fail(ErrorKind::not_found, "turn " + draft.turn + " has no " + place + "; `turnbox turn show " +
                                             draft.turn + "` shows what it has");
}

Result<StoredVersion> of_turn(store::Store& store, const VersionName& name) {
  TRY_ASSIGN(const store::StoredRecord stored, store.load_record(name.word));
  TRY_ASSIGN(const turn::Record record, turn::read_record(stored.record.bytes));
  TRY_ASSIGN(const turn::TreeCapture* capture, capture_at(record.draft, name.place));
  if (const auto* none = std::get_if<turn::NotCaptured>(capture)) {
    return sys::fail(ErrorKind::invalid,
                     "turn " + stored.turn + " has no " + name.place + " captured: " + none->reason);
  }
  return StoredVersion{stored.turn + ":" + name.place, stored.account, std::get<turn::TreeRef>(*capture)};
}

Result<std::optional<StoredVersion>> of_fork(store::Store& store, const std::string& name) {
  TRY_ASSIGN(const auto row, store.find_workspace(name));
  if (!row) return std::optional<StoredVersion>();
  return std::optional(StoredVersion{row->name, row->account, {row->kind, row->content, row->meta}});
}

bool is_live(const Places& places, const std::string& demand) {
  struct stat st;
  return ::stat((runtime_dir_of(places, demand) + "/" + kOperatorsSocket).c_str(), &st) == 0;
}

}  // namespace

Result<StoredVersion> find_stored(store::Store& store, std::string_view text) {
  TRY_ASSIGN(const VersionName name, parse_version_name(text));
  if (name.kind == VersionName::Kind::turn) return of_turn(store, name);
  if (name.kind == VersionName::Kind::live) {
    return sys::fail(
        ErrorKind::usage,
        "'" + std::string(text) + "' is a version of a running sandbox; give a turn or a fork of the store");
  }
  TRY_ASSIGN(const auto fork, of_fork(store, name.word));
  if (fork) return *fork;
  return sys::fail(ErrorKind::not_found, "there is no fork '" + name.word +
                                             "' in the store; `turnbox workspace list` shows what there is");
}

Result<Version> find_version(const Places& places, store::Store& store, std::string_view text) {
  TRY_ASSIGN(const VersionName name, parse_version_name(text));
  if (name.kind == VersionName::Kind::turn) return of_turn(store, name);
  if (name.kind == VersionName::Kind::live) return LiveVersion{name.word, "@" + name.name};
  if (is_live(places, name.word)) return LiveVersion{name.word, "workspace"};
  TRY_ASSIGN(const auto fork, of_fork(store, name.word));
  if (fork) return *fork;
  return sys::fail(ErrorKind::not_found,
                   "'" + name.word +
                       "' is neither a running sandbox nor a fork of the store; `turnbox "
                       "workspace list` shows what there is");
}

std::string runtime_dir_of(const Places& places, const std::string& demand) {
  return places.runtime + "/" + demand;
}

std::vector<std::string> live_demands(const Places& places) {
  std::vector<std::string> demands;
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(places.runtime, ec)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(".") && is_live(places, name) && !RuntimeDir::is_free(entry.path()))
      demands.push_back(name);
  }
  std::sort(demands.begin(), demands.end());
  return demands;
}

Result<control::Client> connect_files(const Places& places, const std::string& demand) {
  auto socket = sys::connect_unix(runtime_dir_of(places, demand) + "/" + kOperatorsSocket);
  if (!socket) {
    return sys::fail(ErrorKind::not_found, "no sandbox of the demand '" + demand +
                                               "' runs; `turnbox workspace list` shows those that do");
  }
  return control::Client(std::move(*socket));
}

}  // namespace turnbox::demand
