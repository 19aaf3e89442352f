#include <charconv>
#include <limits>

#include "broker/turn/canonical.h"
#include "broker/turn/record.h"

namespace turnbox::turn {

using sys::ErrorKind;
using sys::Result;
using sys::Status;

namespace {

// Takes fields by name. What it does not look at cannot slip through: read_record writes the parsed record
// again and compares the bytes.
class Fields {
 public:
  static Result<Fields> of(const Json& value, std::string_view what) {
    const auto* object = value.get<Json::Object>();
    if (object == nullptr) return sys::fail(ErrorKind::invalid, std::string(what) + " is no object");
    return Fields(*object, what);
  }

  bool has(std::string_view name) const { return object_.contains(name); }
  Result<const Json*> any(std::string_view name) const {
    const auto at = object_.find(name);
    if (at == object_.end()) return bad(name, "is missing");
    return &at->second;
  }
  template <typename T>
  Result<T> as(std::string_view name) const {
    TRY_ASSIGN(const Json* value, any(name));
    const T* typed = value->get<T>();
    if (typed == nullptr) return bad(name, "has another type");
    return *typed;
  }
  Result<std::string> text(std::string_view name) const { return as<std::string>(name); }
  Result<std::string> bytes(std::string_view name) const {
    TRY_ASSIGN(const Json* value, any(name));
    return bytes_of_json(*value);
  }
  Result<uint64_t> count(std::string_view name) const {
    TRY_ASSIGN(const int64_t number, as<int64_t>(name));
    if (number < 0) return bad(name, "is negative");
    return static_cast<uint64_t>(number);
  }
  Result<sys::Digest> digest(std::string_view name) const {
    TRY_ASSIGN(const std::string hex, text(name));
    const auto digest = sys::digest_from_hex(hex);
    if (!digest) return bad(name, "is no digest");
    return *digest;
  }
  Result<int64_t> time(std::string_view name) const {
    TRY_ASSIGN(const std::string digits, text(name));
    int64_t ns = 0;
    const auto end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, ns);
    if (parsed.ec != std::errc() || parsed.ptr != end) return bad(name, "is no time");
    return ns;
  }
  // Reads a field that may be null.
  template <typename T>
  Status maybe(std::string_view name, Result<T> (Fields::*read)(std::string_view) const,
               std::optional<T>& into) const {
    TRY_ASSIGN(const Json* value, any(name));
    if (value->is_null()) return {};
    TRY_ASSIGN(into, (this->*read)(name));
    return {};
  }
  Result<Json::Array> array(std::string_view name) const { return as<Json::Array>(name); }
  Result<Fields> object(std::string_view name) const {
    TRY_ASSIGN(const Json* value, any(name));
    return of(*value, name);
  }

  tl::unexpected<sys::Error> bad(std::string_view name, std::string_view why) const {
    return sys::fail(ErrorKind::invalid, what_ + ": " + std::string(name) + " " + std::string(why));
  }

 private:
  Fields(const Json::Object& object, std::string_view what) : object_(object), what_(what) {}
  const Json::Object& object_;
  std::string what_;
};

Result<TreeCapture> read_tree(const Fields& parent, std::string_view name) {
  TRY_ASSIGN(const Fields fields, parent.object(name));
  if (fields.has("not_captured")) {
    NotCaptured why;
    TRY_ASSIGN(why.reason, fields.text("not_captured"));
    return TreeCapture(std::move(why));
  }
  TreeRef ref;
  TRY_ASSIGN(const std::string kind, fields.text("kind"));
  ref.kind = kind == "dir" ? store::ObjectKind::dir : store::ObjectKind::file;
  TRY_ASSIGN(ref.content, fields.digest("content"));
  TRY_ASSIGN(ref.meta, fields.digest("meta"));
  return TreeCapture(ref);
}

Result<EventsCapture> read_events(const Fields& parent) {
  TRY_ASSIGN(const Fields fields, parent.object("events"));
  if (fields.has("not_captured")) {
    NotCaptured why;
    TRY_ASSIGN(why.reason, fields.text("not_captured"));
    return EventsCapture(std::move(why));
  }
  EventsRef ref;
  TRY_ASSIGN(ref.count, fields.count("count"));
  TRY_ASSIGN(ref.digest, fields.digest("digest"));
  return EventsCapture(ref);
}

Result<std::vector<std::string>> read_byte_array(const Fields& parent, std::string_view name) {
  TRY_ASSIGN(const Json::Array array, parent.array(name));
  std::vector<std::string> items;
  for (const Json& value : array) {
    TRY_ASSIGN(std::string item, bytes_of_json(value));
    items.push_back(std::move(item));
  }
  return items;
}

Result<std::optional<StageExit>> read_exit(const Fields& stage) {
  TRY_ASSIGN(const Json* value, stage.any("exit"));
  if (value->is_null()) return std::optional<StageExit>();
  TRY_ASSIGN(const Fields fields, Fields::of(*value, "exit"));
  StageExit ended;
  ended.signalled = fields.has("signal");
  TRY_ASSIGN(const uint64_t code, fields.count(ended.signalled ? "signal" : "code"));
  if (code > 255) return fields.bad("code", "is too large");
  ended.code = static_cast<int>(code);
  TRY_ASSIGN(ended.timed_out, fields.as<bool>("timed_out"));
  return std::optional(ended);
}

Result<uint32_t> read_id(const Fields& fields, std::string_view name) {
  TRY_ASSIGN(const uint64_t number, fields.count(name));
  if (number > std::numeric_limits<uint32_t>::max()) return fields.bad(name, "is too large");
  return static_cast<uint32_t>(number);
}

Result<Stage> read_stage(const Json& value) {
  TRY_ASSIGN(const Fields fields, Fields::of(value, "stage"));
  Stage stage;
  TRY_ASSIGN(stage.name, fields.bytes("name"));
  TRY_ASSIGN(stage.argv, read_byte_array(fields, "argv"));
  TRY_ASSIGN(stage.cwd, fields.bytes("cwd"));
  TRY_ASSIGN(const Json::Array env, fields.array("env"));
  for (const Json& item : env) {
    TRY_ASSIGN(const Fields pair, Fields::of(item, "env"));
    TRY_ASSIGN(std::string name, pair.bytes("name"));
    TRY_ASSIGN(std::string content, pair.bytes("value"));
    stage.env.emplace_back(std::move(name), std::move(content));
  }
  TRY_ASSIGN(stage.uid, read_id(fields, "uid"));
  TRY_ASSIGN(stage.gid, read_id(fields, "gid"));
  TRY_ASSIGN(stage.inputs, read_byte_array(fields, "inputs"));
  TRY_ASSIGN(stage.outputs, read_tree(fields, "outputs"));
  TRY_ASSIGN(stage.exit, read_exit(fields));
  TRY_ASSIGN(const Fields times, fields.object("times"));
  TRY(times.maybe("begun", &Fields::time, stage.begun_ns));
  TRY(times.maybe("ended", &Fields::time, stage.ended_ns));
  return stage;
}

Status read_status(const Fields& fields, Draft& draft) {
  TRY_ASSIGN(const std::string status, fields.text("status"));
  std::optional<std::string> reason;
  TRY(fields.maybe("reason", &Fields::text, reason));
  for (const auto known : {TurnStatus::completed, TurnStatus::failed, TurnStatus::cancelled}) {
    if (name_of(known) == status) draft.status = known;
  }
  draft.reason = Reason::none;
  for (int i = static_cast<int>(Reason::command); i <= static_cast<int>(Reason::ttl); ++i) {
    if (name_of(static_cast<Reason>(i)) == reason) draft.reason = static_cast<Reason>(i);
  }
  std::optional<std::string> detail;
  TRY(fields.maybe("detail", &Fields::text, detail));
  draft.detail = detail.value_or("");
  return {};
}

Status read_machine(const Fields& fields, Draft& draft) {
  TRY_ASSIGN(const Fields times, fields.object("times"));
  TRY_ASSIGN(draft.started_ns, times.time("started"));
  TRY(times.maybe("booted", &Fields::time, draft.booted_ns));
  TRY_ASSIGN(draft.ended_ns, times.time("ended"));
  TRY_ASSIGN(const Fields tier, fields.object("tier"));
  TRY(tier.maybe("asked", &Fields::text, draft.tier_asked));
  TRY_ASSIGN(draft.tier_given, tier.text("given"));
  TRY(fields.maybe("image", &Fields::digest, draft.image));
  TRY(fields.maybe("kernel", &Fields::digest, draft.kernel));
  TRY_ASSIGN(const Fields sandbox, fields.object("sandbox"));
  TRY_ASSIGN(draft.sandbox_fresh, sandbox.as<bool>("fresh"));
  TRY_ASSIGN(draft.sandbox_ordinal, sandbox.count("ordinal"));
  return {};
}

Status read_content(const Fields& fields, Draft& draft) {
  TRY_ASSIGN(const Fields workspace, fields.object("workspace"));
  TRY_ASSIGN(draft.workspace_before, read_tree(workspace, "before"));
  TRY_ASSIGN(draft.workspace_after, read_tree(workspace, "after"));
  TRY_ASSIGN(const Json::Array inputs, fields.array("inputs"));
  for (const Json& value : inputs) {
    TRY_ASSIGN(const Fields item, Fields::of(value, "input"));
    Input input;
    TRY_ASSIGN(input.name, item.bytes("name"));
    TRY_ASSIGN(input.tree, read_tree(item, "tree"));
    draft.inputs.push_back(std::move(input));
  }
  TRY_ASSIGN(const Json::Array stages, fields.array("stages"));
  for (const Json& value : stages) {
    TRY_ASSIGN(Stage stage, read_stage(value));
    draft.stages.push_back(std::move(stage));
  }
  TRY_ASSIGN(draft.events, read_events(fields));
  TRY_ASSIGN(const Fields capture, fields.object("capture"));
  TRY_ASSIGN(draft.capture.captured, read_byte_array(capture, "captured"));
  TRY_ASSIGN(draft.capture.denied, read_byte_array(capture, "denied"));
  TRY_ASSIGN(draft.capture.unknown, read_byte_array(capture, "unknown"));
  TRY_ASSIGN(const Json* flushed, capture.any("flushed"));
  if (!flushed->is_null()) {
    TRY_ASSIGN(draft.capture.flushed, capture.as<bool>("flushed"));
  }
  return {};
}

}  // namespace

Result<Record> read_record(std::string_view bytes) {
  TRY_ASSIGN(const Json value, Json::read(bytes));
  TRY_ASSIGN(const Fields fields, Fields::of(value, "record"));
  TRY_ASSIGN(const uint64_t format, fields.count("format"));
  TRY_ASSIGN(const Json::Array features, fields.array("features"));
  if (format != kRecordFormat || !features.empty()) {
    return sys::fail(ErrorKind::refused,
                     "the record has format " + std::to_string(format) +
                         (features.empty() ? "" : " with features") +
                         ", which this turnbox does not know; use the turnbox that wrote it");
  }
  Record record;
  Draft& draft = record.draft;
  TRY_ASSIGN(draft.turn, fields.text("turn"));
  TRY_ASSIGN(draft.account, fields.text("account"));
  TRY_ASSIGN(draft.project, fields.text("project"));
  TRY_ASSIGN(draft.demand, fields.text("demand"));
  TRY_ASSIGN(draft.thread, fields.text("thread"));
  TRY_ASSIGN(draft.thread_seq, fields.count("thread_seq"));
  TRY_ASSIGN(record.chain_index, fields.count("chain_index"));
  TRY(fields.maybe("previous", &Fields::digest, record.previous));
  TRY_ASSIGN(record.key, fields.digest("key"));
  TRY(read_status(fields, draft));
  TRY(read_machine(fields, draft));
  TRY(read_content(fields, draft));
  auto again = write_record(record);
  if (!again) return tl::make_unexpected(std::move(again).error());
  if (*again != bytes)
    return sys::fail(ErrorKind::invalid, "the record has a field or value that format 1 has not");
  return record;
}

}  // namespace turnbox::turn
