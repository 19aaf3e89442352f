// Canonical JSON (RFC 8785) of the part that turnbox's formats use: objects with keys [a-z_]+ (and b16),
// arrays, strings, booleans, null, integers within ±(2^53−1). Pure; any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "vmm/sys/result.h"

namespace turnbox::turn {

inline constexpr int64_t kMostInteger = (int64_t{1} << 53) - 1;

// A value that can be written canonically, and only such.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;  // keys are ASCII: byte order is UTF-16 order

  Json() = default;  // null
  Json(bool value) : value_(value) {}
  Json(int64_t value) : value_(value) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}
  // Out of line: GCC 12 sees uninitialised members in the variant's inlined moves.
  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ~Json();

  template <typename T>
  const T* get() const {
    return std::get_if<T>(&value_);
  }
  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }

  // invalid: an integer beyond ±(2^53−1), text that is not UTF-8, a key that is not [a-z_]+ or b16.
  sys::Result<std::string> write() const;
  // Refuses (invalid) everything but the canonical bytes of a value: `write` gives them back.
  static sys::Result<Json> read(std::string_view bytes);

  bool operator==(const Json&) const = default;

 private:
  sys::Status write_to(std::string& out) const;
  std::variant<std::monostate, bool, int64_t, std::string, Array, Object> value_;
};

// Raw bytes: a string where they are UTF-8, else {"b16": hexadecimal}.
Json json_of_bytes(std::string_view bytes);
sys::Result<std::string> bytes_of_json(const Json& value);

}  // namespace turnbox::turn
