#include "vmm/guest/request.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>

#include "vmm/guest/json.h"
#include "vmm/sys/bytes.h"

namespace turnbox::guest {
namespace {

using sys::ErrorKind;
using sys::fail;
using sys::Result;
using sys::Status;

constexpr int64_t kMaxMilliseconds = 366LL * 24 * 3600 * 1000;
constexpr int64_t kMaxId = 0xffff'fffe;  // -1 means «leave as it is» to the kernel

// One request object whose members are taken by name.
class Members {
 public:
  explicit Members(const Json& object) : object_(object) {}

  Status only(std::initializer_list<std::string_view> known) const {
    for (const JsonMember& member : *object_.object()) {
      if (member.key != "op" && std::ranges::find(known, member.key) == known.end()) {
        return fail(ErrorKind::invalid, "unknown member " + member.key);
      }
    }
    return {};
  }

  Result<const Json*> need(std::string_view key) const {
    const Json* value = object_.find(key);
    if (value == nullptr) return fail(ErrorKind::invalid, std::string(key) + " is missing");
    return value;
  }

  Result<int64_t> integer(std::string_view key, int64_t least, int64_t most) const {
    TRY_ASSIGN(const Json* value, need(key));
    const int64_t* number = value->integer();
    if (number == nullptr || *number < least || *number > most) {
      return fail(ErrorKind::invalid, std::string(key) + " is not an integer from " + std::to_string(least) +
                                          " to " + std::to_string(most));
    }
    return *number;
  }

  Result<std::string> text(std::string_view key) const {
    TRY_ASSIGN(const Json* value, need(key));
    return text_of(key, *value);
  }

  // A string, or {"b16":"…"}; bytes that go into a C string.
  static Result<std::string> text_of(std::string_view key, const Json& value) {
    std::string text;
    if (value.string() != nullptr) {
      text = *value.string();
    } else {
      const Json* hex = value.find("b16");
      if (hex == nullptr || hex->string() == nullptr || value.object()->size() != 1) {
        return fail(ErrorKind::invalid, std::string(key) + " is not a string");
      }
      auto bytes = sys::from_hex(*hex->string());
      if (!bytes) return fail(ErrorKind::invalid, std::string(key) + " holds wrong hexadecimal");
      text = sys::as_text(*bytes);
    }
    if (text.find('\0') != std::string::npos)
      return fail(ErrorKind::invalid, std::string(key) + " holds a NUL byte");
    return text;
  }

  Result<std::string> exec_id() const {
    TRY_ASSIGN(std::string id, text("exec"));
    const bool good = !id.empty() && id.size() <= 64 && std::ranges::all_of(id, [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
             c == '_' || c == '-';
    });
    if (!good)
      return fail(ErrorKind::invalid, "exec is not 1 to 64 letters, digits, dots, hyphens or underscores");
    return id;
  }

 private:
  const Json& object_;
};

Result<Request> parse_hello(const Members& in) {
  TRY(in.only({"clock_ns"}));
  TRY_ASSIGN(const std::string digits, in.text("clock_ns"));
  int64_t clock = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), clock);
  if (error != std::errc{} || end != digits.data() + digits.size() || clock < 0) {
    return fail(ErrorKind::invalid, "clock_ns is not a decimal string of nanoseconds");
  }
  return Hello{clock};
}

Result<std::vector<std::string>> parse_env(const Members& in) {
  TRY_ASSIGN(const Json* list, in.need("env"));
  if (list->array() == nullptr) return fail(ErrorKind::invalid, "env is not an array");
  std::vector<std::string> env;
  for (const Json& pair : *list->array()) {
    if (pair.array() == nullptr || pair.array()->size() != 2) {
      return fail(ErrorKind::invalid, "env holds something that is not a pair");
    }
    TRY_ASSIGN(std::string key, Members::text_of("env", (*pair.array())[0]));
    TRY_ASSIGN(const std::string value, Members::text_of("env", (*pair.array())[1]));
    if (key.empty() || key.find('=') != std::string::npos) {
      return fail(ErrorKind::invalid, "env holds a name that is empty or contains =");
    }
    env.push_back(std::move(key) + "=" + value);
  }
  return env;
}

Result<Request> parse_exec(const Members& in) {
  TRY(in.only({"exec", "argv", "env", "cwd", "uid", "gid", "timeout_ms"}));
  Exec exec;
  TRY_ASSIGN(exec.id, in.exec_id());
  TRY_ASSIGN(const Json* argv, in.need("argv"));
  if (argv->array() == nullptr || argv->array()->empty()) {
    return fail(ErrorKind::invalid, "argv is not an array with at least one string");
  }
  for (const Json& argument : *argv->array()) {
    TRY_ASSIGN(std::string text, Members::text_of("argv", argument));
    exec.argv.push_back(std::move(text));
  }
  TRY_ASSIGN(exec.env, parse_env(in));
  TRY_ASSIGN(exec.cwd, in.text("cwd"));
  if (!exec.cwd.starts_with('/')) return fail(ErrorKind::invalid, "cwd is not an absolute path");
  TRY_ASSIGN(const int64_t uid, in.integer("uid", 0, kMaxId));
  TRY_ASSIGN(const int64_t gid, in.integer("gid", 0, kMaxId));
  exec.uid = static_cast<uid_t>(uid);
  exec.gid = static_cast<gid_t>(gid);
  if (auto timeout = in.need("timeout_ms"); timeout) {
    TRY_ASSIGN(const int64_t count, in.integer("timeout_ms", 1, kMaxMilliseconds));
    exec.timeout = std::chrono::milliseconds(count);
  }
  return exec;
}

Result<Request> parse_kill(const Members& in) {
  TRY(in.only({"exec", "signal"}));
  TRY_ASSIGN(std::string id, in.exec_id());
  TRY_ASSIGN(const int64_t signal, in.integer("signal", 1, 64));
  return Kill{std::move(id), static_cast<int>(signal)};
}

Result<Request> parse_end(const Members& in) {
  TRY(in.only({"exec"}));
  TRY_ASSIGN(std::string id, in.exec_id());
  return End{std::move(id)};
}

Result<Request> parse_flush(const Members& in) {
  TRY(in.only({"deadline_ms"}));
  TRY_ASSIGN(const int64_t deadline, in.integer("deadline_ms", 1, kMaxMilliseconds));
  return Flush{std::chrono::milliseconds(deadline)};
}

Result<Request> parse_rebind(const Members& in) {
  TRY(in.only({"epoch"}));
  TRY_ASSIGN(const int64_t epoch, in.integer("epoch", 1, 0x7fff'ffff));
  return Rebind{static_cast<uint32_t>(epoch)};
}

}  // namespace

Result<Request> parse_request(std::string_view line) {
  TRY_ASSIGN(const Json json, Json::parse(line));
  if (json.object() == nullptr) return fail(ErrorKind::invalid, "the request is not a JSON object");
  const Members in(json);
  TRY_ASSIGN(const std::string op, in.text("op"));
  if (op == "hello") return parse_hello(in);
  if (op == "exec") return parse_exec(in);
  if (op == "kill") return parse_kill(in);
  if (op == "end") return parse_end(in);
  if (op == "flush") return parse_flush(in);
  if (op == "rebind") return parse_rebind(in);
  if (op == "poweroff") {
    TRY(in.only({}));
    return PowerOff{};
  }
  return fail(ErrorKind::invalid, "unknown op " + op);
}

std::string refusal_line(std::string_view error, std::string_view text) {
  return "{\"ok\":false,\"error\":" + json_text(error) + ",\"text\":" + json_text(text) + "}\n";
}

}  // namespace turnbox::guest
