#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <iostream>

#include "broker/cli/text.h"
#include "broker/cli/verb.h"
#include "broker/cli/workspace.h"
#include "broker/turn/record.h"

namespace turnbox::cli {
namespace {

namespace json = boost::json;

struct Lists {
  json::array live, stored, forks;
};

// A sandbox that goes meanwhile is no error of a list.
void add_live(const Opened& opened, const std::string& only, json::array& to) {
  for (const std::string& demand : demand::live_demands(opened.places)) {
    if (!only.empty() && demand != only) continue;
    auto files = demand::connect_files(opened.places, demand);
    if (!files) continue;
    const auto versions = files->versions();
    if (!versions) continue;
    to.push_back({{"version", demand}, {"demand", demand}, {"kind", "workspace"}});
    for (const control::Version& version : *versions) {
      to.push_back({{"version", demand + "@" + version.name},
                    {"demand", demand},
                    {"kind", version.fork ? "fork" : "snapshot"},
                    {"made", std::to_string(version.made_sec * 1'000'000'000)}});
    }
  }
}

void add_tree(json::array& to, const store::StoredRecord& stored, int64_t ended, const std::string& place,
              const turn::TreeCapture& capture) {
  const auto* ref = std::get_if<turn::TreeRef>(&capture);
  if (ref == nullptr) return;
  to.push_back({{"version", stored.turn + ":" + printable(place)},
                {"demand", stored.demand},
                {"ended", std::to_string(ended)},
                {"content", to_hex(ref->content)}});
}

sys::Status add_stored(Opened& opened, const std::string& only, json::array& to) {
  TRY_ASSIGN(const auto records, opened.ledger.store().list());
  for (const auto& stored : records) {
    if (!only.empty() && stored.demand != only) continue;
    TRY_ASSIGN(const turn::Record record, turn::read_record(stored.record.bytes));
    const turn::Draft& draft = record.draft;
    add_tree(to, stored, draft.ended_ns, "before", draft.workspace_before);
    add_tree(to, stored, draft.ended_ns, "after", draft.workspace_after);
    for (const auto& input : draft.inputs)
      add_tree(to, stored, draft.ended_ns, "inputs/" + input.name, input.tree);
    for (const auto& stage : draft.stages)
      add_tree(to, stored, draft.ended_ns, "outputs/" + stage.name, stage.outputs);
  }
  return {};
}

sys::Status add_forks(Opened& opened, json::array& to) {
  TRY_ASSIGN(const auto rows, opened.ledger.store().workspaces());
  for (const auto& row : rows) {
    to.push_back({{"version", row.name},
                  {"origin", row.origin},
                  {"made", std::to_string(row.created_ns)},
                  {"content", to_hex(row.content)}});
  }
  return {};
}

std::string text_of(const json::object& row, std::string_view key) {
  const json::value* value = row.if_contains(key);
  return value == nullptr ? std::string() : std::string(value->get_string());
}

std::string time_of(const json::object& row, std::string_view key) {
  const std::string ns = text_of(row, key);
  return ns.empty() ? std::string() : utc(std::stoll(ns));
}

void print(const Lists& lists) {
  const auto line = [](const std::string& version, const std::string& what, const std::string& time) {
    std::printf("%-44s  %-20s  %s\n", version.c_str(), time.c_str(), what.c_str());
  };
  for (const auto& row : lists.live)
    line(text_of(row.get_object(), "version"), "live " + text_of(row.get_object(), "kind"),
         time_of(row.get_object(), "made"));
  for (const auto& row : lists.stored)
    line(text_of(row.get_object(), "version"), "of " + text_of(row.get_object(), "demand"),
         time_of(row.get_object(), "ended"));
  for (const auto& row : lists.forks)
    line(text_of(row.get_object(), "version"), "fork of " + text_of(row.get_object(), "origin"),
         time_of(row.get_object(), "made"));
}

sys::Result<int> enter(const Arguments& arguments) {
  Options options(kWorkspaceList);
  bool as_json = false;
  std::string demand;
  options.flag("--json", as_json);
  options.argument("DEMAND", demand, Options::Presence::optional);
  TRY(options.parse(arguments));
  TRY_ASSIGN(Opened opened, open_ledger(options));
  Lists lists;
  add_live(opened, demand, lists.live);
  TRY(add_stored(opened, demand, lists.stored));
  if (demand.empty()) TRY(add_forks(opened, lists.forks));
  if (!as_json) {
    print(lists);
    return 0;
  }
  std::cout << json::serialize(json::object{{"live", std::move(lists.live)},
                                            {"stored", std::move(lists.stored)},
                                            {"forks", std::move(lists.forks)}})
            << "\n";
  return 0;
}

}  // namespace

const Verb kWorkspaceList{"workspace list", "list versions: of running sandboxes, of turns, and forks",
                          R"(usage: turnbox workspace list [DEMAND] [--json] [--state DIR]

Lists the workspaces of running sandboxes with their snapshots and forks, then what turns have stored, oldest first, then the
forks of the store. Columns: version (the name to give to other verbs), time, what it is. With DEMAND, that demand's only.

  --json        one object: {"live": [{"version": …, "kind": …}, …], "stored": [{"version": …, "content": …}, …], "forks": […]}
  --state DIR   where records are kept (TURNBOX_STATE)

example
  turnbox workspace list --json | jq -r '.stored[].version'
)",
                          enter};

}  // namespace turnbox::cli
