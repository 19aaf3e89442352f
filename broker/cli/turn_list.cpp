#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cstdio>
#include <iostream>

#include "broker/cli/open_ledger.h"
#include "broker/cli/text.h"
#include "broker/cli/verb.h"
#include "broker/turn/record.h"

namespace turnbox::cli {
namespace {

namespace json = boost::json;

json::object row_of(const store::StoredRecord& stored, const turn::Record& record) {
  const turn::Draft& draft = record.draft;
  json::object row{{"turn", stored.turn},
                   {"demand", stored.demand},
                   {"project", stored.project},
                   {"account", stored.account},
                   {"thread", draft.thread},
                   {"status", turn::name_of(draft.status)},
                   {"tier", draft.tier_given},
                   {"ended", std::to_string(draft.ended_ns)},
                   {"record", to_hex(stored.record.digest)}};
  if (draft.reason != turn::Reason::none) row["reason"] = turn::name_of(draft.reason);
  return row;
}

void print_row(const store::StoredRecord& stored, const turn::Record& record) {
  const turn::Draft& draft = record.draft;
  std::string status(turn::name_of(draft.status));
  if (draft.reason != turn::Reason::none) status += " (" + std::string(turn::name_of(draft.reason)) + ")";
  std::string command;
  if (!draft.stages.empty()) {
    for (const auto& word : draft.stages.front().argv)
      command += (command.empty() ? "" : " ") + printable(word);
  }
  if (command.size() > 60) command.resize(59), command += "…";
  std::printf("%-26s  %-20s  %-12s  %-22s  %s\n", stored.turn.c_str(), utc(draft.ended_ns).c_str(),
              stored.demand.c_str(), status.c_str(), command.c_str());
}

sys::Result<int> enter(const Arguments& arguments) {
  Options options(kTurnList);
  bool as_json = false;
  options.flag("--json", as_json);
  TRY(options.parse(arguments));
  TRY_ASSIGN(Opened opened, open_ledger(options));
  TRY_ASSIGN(const auto records, opened.ledger.store().list());
  json::array rows;
  if (!as_json && !records.empty()) {
    std::printf("%-26s  %-20s  %-12s  %-22s  %s\n", "TURN", "ENDED", "DEMAND", "STATUS", "COMMAND");
  }
  for (const auto& stored : records) {
    TRY_ASSIGN(const turn::Record record, turn::read_record(stored.record.bytes));
    if (as_json) {
      rows.push_back(row_of(stored, record));
    } else {
      print_row(stored, record);
    }
  }
  if (as_json) std::cout << json::serialize(json::object{{"turns", rows}}) << "\n";
  if (!as_json && records.empty()) std::cout << "no turns yet; turnbox run -- CMD makes one\n";
  return 0;
}

}  // namespace

const Verb kTurnList{"turn list", "list the turns that have a record, oldest first",
                     R"(usage: turnbox turn list [--json] [--state DIR]

Lists every turn that has a record in the state directory, oldest first.

  --json        one object: {"turns": [{"turn": …, "demand": …, "status": …, "record": …}, …]}
  --state DIR   where records are kept (TURNBOX_STATE)

example
  turnbox turn list --json | jq -r '.turns[-1].turn'
)",
                     enter};

}  // namespace turnbox::cli
