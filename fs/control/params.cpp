#include "fs/control/params.h"

#include <algorithm>

#include "vmm/sys/bytes.h"

namespace turnbox::control {
namespace {

constexpr uint64_t kBelow = uint64_t{1} << 53;
constexpr size_t kLongestText = 4096;
constexpr size_t kMostTexts = 1024;

tl::unexpected<sys::Error> refuse(std::string_view key, std::string_view want) {
  return sys::fail(sys::ErrorKind::invalid,
                   "the parameter " + std::string(key) + " is not " + std::string(want));
}

}  // namespace

const boost::json::value* Params::take(std::string_view key) {
  taken_.push_back(key);
  return from_.if_contains(key);
}

sys::Result<std::string> Params::text(std::string_view key) {
  const auto* value = take(key);
  if (value == nullptr || !value->is_string() || value->get_string().size() > kLongestText) {
    return refuse(key, "a string of at most 4,096 bytes");
  }
  return std::string(value->get_string());
}

sys::Result<std::optional<std::string>> Params::text_if_any(std::string_view key) {
  if (from_.if_contains(key) == nullptr) return std::optional<std::string>();
  TRY_ASSIGN(std::string given, text(key));
  return std::optional(std::move(given));
}

sys::Result<std::string> Params::bytes(std::string_view key) {
  const auto* value = take(key);
  const boost::json::value* hex = nullptr;
  if (value != nullptr && value->is_object() && value->get_object().size() == 1)
    hex = value->get_object().if_contains("b16");
  if (hex == nullptr) return text(key);
  if (hex->is_string() && hex->get_string().size() <= 2 * kLongestText) {
    if (const auto raw = sys::from_hex(hex->get_string())) return std::string(sys::as_text(*raw));
  }
  return refuse(key, "text, or hexadecimal in b16, of at most 4,096 bytes");
}

sys::Result<uint64_t> Params::number(std::string_view key) {
  const auto* value = take(key);
  if (value == nullptr || !value->is_int64() || value->get_int64() < 0 ||
      static_cast<uint64_t>(value->get_int64()) >= kBelow) {
    return refuse(key, "an integer from 0 to 2^53 - 1");
  }
  return static_cast<uint64_t>(value->get_int64());
}

sys::Result<bool> Params::flag(std::string_view key) {
  const auto* value = take(key);
  if (value == nullptr || !value->is_bool()) return refuse(key, "true or false");
  return value->get_bool();
}

sys::Result<const boost::json::object*> Params::object(std::string_view key) {
  const auto* value = take(key);
  if (value == nullptr || !value->is_object()) return refuse(key, "an object");
  return &value->get_object();
}

sys::Result<std::vector<std::string>> Params::texts(std::string_view key) {
  const auto* value = take(key);
  if (value == nullptr || !value->is_array() || value->get_array().size() > kMostTexts) {
    return refuse(key, "an array of at most 1,024 strings");
  }
  std::vector<std::string> out;
  for (const auto& item : value->get_array()) {
    if (!item.is_string() || item.get_string().size() > kLongestText)
      return refuse(key, "an array of strings");
    out.emplace_back(item.get_string());
  }
  return out;
}

sys::Status Params::finish() const {
  for (const auto& member : from_) {
    const std::string_view key = member.key();
    if (std::find(taken_.begin(), taken_.end(), key) == taken_.end()) {
      return sys::fail(sys::ErrorKind::invalid, "unknown parameter " + std::string(key));
    }
  }
  return {};
}

}  // namespace turnbox::control
