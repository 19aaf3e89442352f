// A small strict JSON reader and writer for turnbox-init, which links no library.
//
// Reads what the exec session format needs and refuses the rest: numbers are integers within ±(2^53−1), a key
// stands once in its object, strings are well-formed UTF-8, nesting is at most kMaxDepth, a text holds at
// most kMaxValues values and nothing after the first. Pure values, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "vmm/sys/result.h"

namespace turnbox::guest {

struct JsonMember;

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<JsonMember>;  // in the order of the text

  static constexpr int kMaxDepth = 8;
  static constexpr size_t kMaxValues = 65'536;

  Json() = default;
  explicit Json(bool value) : value_(value) {}
  explicit Json(int64_t value) : value_(value) {}
  explicit Json(std::string value) : value_(std::move(value)) {}
  explicit Json(Array value) : value_(std::move(value)) {}
  explicit Json(Object value) : value_(std::move(value)) {}

  static sys::Result<Json> parse(std::string_view text);  // kind invalid, with the offset

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&value_); }
  const std::string* string() const { return std::get_if<std::string>(&value_); }
  const Array* array() const { return std::get_if<Array>(&value_); }
  const Object* object() const { return std::get_if<Object>(&value_); }
  const Json* find(std::string_view key) const;  // null when this is no object or has no such key

 private:
  std::variant<std::monostate, bool, int64_t, std::string, Array, Object> value_;
};

struct JsonMember {
  std::string key;
  Json value;
};

// The string as JSON, or {"b16":"…"} where its bytes are not UTF-8.
std::string json_text(std::string_view text);

}  // namespace turnbox::guest
