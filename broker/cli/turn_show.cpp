#include <boost/json/serialize.hpp>
#include <cstdio>
#include <iostream>

#include "broker/cli/open_ledger.h"
#include "broker/cli/text.h"
#include "broker/cli/verb.h"
#include "broker/turn/record.h"

namespace turnbox::cli {
namespace {

void line(const char* name, const std::string& value) {
  std::printf("%-12s %s\n", name, value.c_str());
}

std::string shown(const turn::TreeCapture& tree) {
  if (const auto* none = std::get_if<turn::NotCaptured>(&tree))
    return "not captured: " + printable(none->reason);
  return to_hex(std::get<turn::TreeRef>(tree).content);
}

std::string shown(const std::optional<turn::StageExit>& exit) {
  if (!exit) return "not seen";
  std::string text = (exit->signalled ? "signal " : "exit ") + std::to_string(exit->code);
  return exit->timed_out ? text + " (time-out)" : text;
}

void show_stage(const turn::Stage& stage) {
  std::string command;
  for (const auto& word : stage.argv) command += (command.empty() ? "" : " ") + printable(word);
  line("stage", printable(stage.name));
  line("  command", command);
  line("  ended", shown(stage.exit));
  line("  outputs", shown(stage.outputs));
}

void show(const store::StoredRecord& stored, const turn::Record& record) {
  const turn::Draft& draft = record.draft;
  line("turn", stored.turn);
  line("demand", stored.account + "/" + stored.project + "/" + stored.demand + ", thread " + draft.thread +
                     ", turn " + std::to_string(draft.thread_seq));
  std::string status(turn::name_of(draft.status));
  if (draft.reason != turn::Reason::none) status += " (" + std::string(turn::name_of(draft.reason)) + ")";
  line("status", status);
  if (!draft.detail.empty()) line("detail", printable(draft.detail));
  line("started", utc(draft.started_ns));
  line("ended", utc(draft.ended_ns));
  line("tier",
       draft.tier_given + (draft.tier_asked ? ", asked for " + *draft.tier_asked : ", the best there was"));
  if (draft.image) line("image", to_hex(*draft.image));
  line("before", shown(draft.workspace_before));
  line("after", shown(draft.workspace_after));
  for (const auto& input : draft.inputs) line("input", printable(input.name) + " " + shown(input.tree));
  for (const auto& stage : draft.stages) show_stage(stage);
  if (const auto* events = std::get_if<turn::EventsRef>(&draft.events)) {
    line("events", std::to_string(events->count) + ", " + to_hex(events->digest));
  }
  line("chain", std::to_string(record.chain_index) +
                    (record.previous ? " after " + to_hex(*record.previous) : ", the first of its demand"));
  line("key", to_hex(record.key));
  line("record", to_hex(stored.record.digest));
}

sys::Result<int> enter(const Arguments& arguments) {
  Options options(kTurnShow);
  bool as_json = false;
  std::string id;
  options.flag("--json", as_json);
  options.argument("ID", id);
  TRY(options.parse(arguments));
  TRY_ASSIGN(Opened opened, open_ledger(options));
  TRY_ASSIGN(const store::StoredRecord stored, opened.ledger.store().load_record(id));
  if (as_json) {
    std::cout << stored.record.bytes << "\n";
    return 0;
  }
  TRY_ASSIGN(const turn::Record record, turn::read_record(stored.record.bytes));
  show(stored, record);
  return 0;
}

}  // namespace

const Verb kTurnShow{"turn show", "show one turn's record",
                     R"(usage: turnbox turn show ID [--json] [--state DIR]

Shows what the record of a turn says. ID is the turn's id, or its first characters (four at least).

  --json        the record itself: canonical JSON, the bytes whose digest is the record's (docs/RECORD.md)
  --state DIR   where records are kept (TURNBOX_STATE)

example
  turnbox turn show 01JD --json | jq .stages
)",
                     enter};

}  // namespace turnbox::cli
