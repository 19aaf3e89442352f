#include <algorithm>
#include <array>
#include <set>

#include "broker/turn/canonical.h"
#include "broker/turn/record.h"
#include "broker/turn/ulid.h"

namespace turnbox::turn {

using sys::ErrorKind;
using sys::Result;
using sys::Status;

namespace {

// Saturated, so that Json::write refuses what is too large.
Json integer(uint64_t number) {
  return static_cast<int64_t>(std::min<uint64_t>(number, static_cast<uint64_t>(kMostInteger) + 1));
}
Json time_text(int64_t ns) {
  return std::to_string(ns);
}
Json time_text(const std::optional<int64_t>& ns) {
  return ns ? time_text(*ns) : Json();
}
Json hex(const sys::Digest& digest) {
  return sys::to_hex(digest);
}
Json hex(const std::optional<sys::Digest>& digest) {
  return digest ? hex(*digest) : Json();
}
Json not_captured(const NotCaptured& why) {
  return Json::Object{{"not_captured", why.reason}};
}

Json byte_array(const std::vector<std::string>& items) {
  Json::Array array;
  for (const auto& item : items) array.push_back(json_of_bytes(item));
  return array;
}

Json tree(const TreeCapture& capture) {
  if (const auto* why = std::get_if<NotCaptured>(&capture)) return not_captured(*why);
  const auto& ref = std::get<TreeRef>(capture);
  return Json::Object{{"kind", std::string(store::name_of(ref.kind))},
                      {"content", hex(ref.content)},
                      {"meta", hex(ref.meta)}};
}

Json events(const EventsCapture& capture) {
  if (const auto* why = std::get_if<NotCaptured>(&capture)) return not_captured(*why);
  const auto& ref = std::get<EventsRef>(capture);
  return Json::Object{{"count", integer(ref.count)}, {"digest", hex(ref.digest)}};
}

Json inputs(std::vector<Input> items) {
  std::sort(items.begin(), items.end(), [](const Input& a, const Input& b) { return a.name < b.name; });
  Json::Array array;
  for (const Input& item : items) {
    array.push_back(Json::Object{{"name", json_of_bytes(item.name)}, {"tree", tree(item.tree)}});
  }
  return array;
}

Json exit_of(const std::optional<StageExit>& ended) {
  if (!ended) return {};
  return Json::Object{{ended->signalled ? "signal" : "code", static_cast<int64_t>(ended->code)},
                      {"timed_out", ended->timed_out}};
}

Json stage(const Stage& item) {
  Json::Array env;
  for (const auto& [name, value] : item.env) {
    env.push_back(Json::Object{{"name", json_of_bytes(name)}, {"value", json_of_bytes(value)}});
  }
  return Json::Object{
      {"name", json_of_bytes(item.name)},
      {"argv", byte_array(item.argv)},
      {"cwd", json_of_bytes(item.cwd)},
      {"env", std::move(env)},
      {"uid", integer(item.uid)},
      {"gid", integer(item.gid)},
      {"inputs", byte_array(item.inputs)},
      {"outputs", tree(item.outputs)},
      {"projections", Json::Array{}},
      {"exit", exit_of(item.exit)},
      {"times", Json::Object{{"begun", time_text(item.begun_ns)}, {"ended", time_text(item.ended_ns)}}},
  };
}

Json words(std::vector<std::string> items) {
  std::sort(items.begin(), items.end());
  Json::Array array;
  for (auto& item : items) array.push_back(std::move(item));
  return array;
}

Json capture(const CaptureManifest& manifest) {
  return Json::Object{{"captured", words(manifest.captured)},
                      {"denied", words(manifest.denied)},
                      {"unknown", words(manifest.unknown)},
                      {"flushed", manifest.flushed ? Json(*manifest.flushed) : Json()}};
}

Status check_tree(const TreeCapture& capture, std::string_view what) {
  const auto* why = std::get_if<NotCaptured>(&capture);
  if (why != nullptr && why->reason.empty()) {
    return sys::fail(ErrorKind::invalid, std::string(what) + " is not captured, without a reason");
  }
  const auto* ref = std::get_if<TreeRef>(&capture);
  if (ref != nullptr && ref->kind != store::ObjectKind::dir && ref->kind != store::ObjectKind::file) {
    return sys::fail(ErrorKind::invalid, std::string(what) + " is neither a directory nor a file");
  }
  return {};
}

bool reason_fits(TurnStatus status, Reason reason) {
  switch (status) {
    case TurnStatus::completed:
      return reason == Reason::none;
    case TurnStatus::failed:
      return reason == Reason::command || reason == Reason::infrastructure;
    case TurnStatus::cancelled:
      return reason >= Reason::timeout && reason <= Reason::ttl;
  }
  return false;
}

bool is_tier(std::string_view tier) {
  return tier == "hardware" || tier == "emulated";
}

Status check_stage(const Stage& item) {
  TRY(check_tree(item.outputs, "the outputs of stage " + item.name));
  if (item.exit) {
    const int least = item.exit->signalled ? 1 : 0;
    const int most = item.exit->signalled ? 64 : 255;
    if (item.exit->code < least || item.exit->code > most) {
      return sys::fail(ErrorKind::invalid, "stage " + item.name + " has an impossible exit");
    }
  }
  return {};
}

Status check(const Draft& draft) {
  if (!is_ulid(draft.turn)) return sys::fail(ErrorKind::invalid, "turn id '" + draft.turn + "' is no ULID");
  if (!reason_fits(draft.status, draft.reason)) {
    return sys::fail(ErrorKind::invalid, "a turn cannot be " + std::string(name_of(draft.status)) +
                                             " with reason " + std::string(name_of(draft.reason)));
  }
  if (!is_tier(draft.tier_given) || (draft.tier_asked && !is_tier(*draft.tier_asked))) {
    return sys::fail(ErrorKind::invalid, "a tier is neither hardware nor emulated");
  }
  TRY(check_tree(draft.workspace_before, "the workspace before"));
  TRY(check_tree(draft.workspace_after, "the workspace after"));
  std::set<std::string> names;
  for (const Input& item : draft.inputs) {
    TRY(check_tree(item.tree, "input " + item.name));
    if (!names.insert(item.name).second)
      return sys::fail(ErrorKind::invalid, "two inputs are named " + item.name);
  }
  for (const Stage& item : draft.stages) TRY(check_stage(item));
  const auto* why = std::get_if<NotCaptured>(&draft.events);
  if (why != nullptr && why->reason.empty()) {
    return sys::fail(ErrorKind::invalid, "the events are not captured, without a reason");
  }
  std::set<std::string> said;
  for (const auto* list : {&draft.capture.captured, &draft.capture.denied, &draft.capture.unknown}) {
    for (const auto& word : *list) {
      if (!said.insert(word).second)
        return sys::fail(ErrorKind::invalid, "the capture manifest says " + word + " twice");
    }
  }
  return {};
}

}  // namespace

std::string_view name_of(TurnStatus status) {
  static constexpr std::array<std::string_view, 3> kNames{"completed", "failed", "cancelled"};
  return kNames.at(static_cast<size_t>(status));
}

std::string_view name_of(Reason reason) {
  static constexpr std::array<std::string_view, 7> kNames{
      "none", "command", "infrastructure", "timeout", "signal", "down", "ttl"};
  return kNames.at(static_cast<size_t>(reason));
}

Result<std::string> write_record(const Record& record) {
  const Draft& draft = record.draft;
  TRY(check(draft));
  Json::Array stages;
  for (const Stage& item : draft.stages) stages.push_back(stage(item));
  const Json whole = Json::Object{
      {"format", integer(kRecordFormat)},
      {"features", Json::Array{}},
      {"turn", draft.turn},
      {"account", draft.account},
      {"project", draft.project},
      {"demand", draft.demand},
      {"thread", draft.thread},
      {"thread_seq", integer(draft.thread_seq)},
      {"chain_index", integer(record.chain_index)},
      {"previous", hex(record.previous)},
      {"key", hex(record.key)},
      {"status", std::string(name_of(draft.status))},
      {"reason", draft.reason == Reason::none ? Json() : Json(std::string(name_of(draft.reason)))},
      {"detail", draft.detail.empty() ? Json() : Json(draft.detail)},
      {"times", Json::Object{{"started", time_text(draft.started_ns)},
                             {"booted", time_text(draft.booted_ns)},
                             {"ended", time_text(draft.ended_ns)}}},
      {"tier", Json::Object{{"asked", draft.tier_asked ? Json(*draft.tier_asked) : Json()},
                            {"given", draft.tier_given}}},
      {"image", hex(draft.image)},
      {"kernel", hex(draft.kernel)},
      {"sandbox", Json::Object{{"fresh", draft.sandbox_fresh}, {"ordinal", integer(draft.sandbox_ordinal)}}},
      {"workspace",
       Json::Object{{"before", tree(draft.workspace_before)}, {"after", tree(draft.workspace_after)}}},
      {"inputs", inputs(draft.inputs)},
      {"stages", std::move(stages)},
      {"events", events(draft.events)},
      {"calls", Json::Array{}},
      {"capture", capture(draft.capture)},
  };
  return whole.write();
}

sys::Digest record_digest(std::string_view bytes) {
  return sys::digest_of("record", sys::as_bytes(bytes));
}

std::vector<store::Root> roots_of(const Draft& draft) {
  std::vector<store::Root> roots;
  const auto add = [&](const TreeCapture& capture) {
    if (const auto* ref = std::get_if<TreeRef>(&capture)) {
      roots.push_back({ref->kind, ref->content});
      roots.push_back({store::ObjectKind::file, ref->meta});
    }
  };
  add(draft.workspace_before);
  add(draft.workspace_after);
  for (const Input& item : draft.inputs) add(item.tree);
  for (const Stage& item : draft.stages) add(item.outputs);
  if (const auto* ref = std::get_if<EventsRef>(&draft.events))
    roots.push_back({store::ObjectKind::file, ref->digest});
  return roots;
}

}  // namespace turnbox::turn
