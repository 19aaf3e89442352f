#include "broker/turn/canonical.h"

#include <algorithm>
#include <boost/json.hpp>

#include "vmm/sys/bytes.h"

namespace turnbox::turn {

using sys::ErrorKind;
using sys::Result;
using sys::Status;

namespace {

constexpr size_t kDeepest = 16;

void write_string(std::string& out, std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += "\\u00";
          out += kHex[static_cast<unsigned char>(c) >> 4];
          out += kHex[static_cast<unsigned char>(c) & 15];
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

bool good_key(std::string_view key) {
  return key == "b16" || (!key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || c == '_';
         }));
}

// Numbers that are not int64, and duplicate keys, change on the way back and so fail the comparison in
// read().
Json convert(const boost::json::value& value) {
  switch (value.kind()) {
    case boost::json::kind::bool_:
      return value.get_bool();
    case boost::json::kind::int64:
      return value.get_int64();
    case boost::json::kind::string:
      return std::string(value.get_string());
    case boost::json::kind::array: {
      Json::Array array;
      for (const auto& item : value.get_array()) array.push_back(convert(item));
      return array;
    }
    case boost::json::kind::object: {
      Json::Object object;
      for (const auto& item : value.get_object()) object.emplace(item.key(), convert(item.value()));
      return object;
    }
    default:
      return {};
  }
}

}  // namespace

Json::Json(const Json&) = default;
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(const Json&) = default;
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;

Status Json::write_to(std::string& out) const {
  if (const bool* truth = get<bool>()) {
    out += *truth ? "true" : "false";
  } else if (const int64_t* number = get<int64_t>()) {
    if (*number > kMostInteger || *number < -kMostInteger) {
      return sys::fail(ErrorKind::invalid,
                       "the number " + std::to_string(*number) + " does not fit canonical JSON");
    }
    out += std::to_string(*number);
  } else if (const auto* text = get<std::string>()) {
    if (!sys::is_utf8(*text))
      return sys::fail(ErrorKind::invalid, "text that is not UTF-8 does not fit JSON");
    write_string(out, *text);
  } else if (const auto* array = get<Array>()) {
    out += '[';
    for (size_t i = 0; i < array->size(); ++i) {
      if (i > 0) out += ',';
      TRY((*array)[i].write_to(out));
    }
    out += ']';
  } else if (const auto* object = get<Object>()) {
    char before = '{';
    for (const auto& [key, value] : *object) {
      if (!good_key(key)) return sys::fail(ErrorKind::invalid, "'" + key + "' is no key: use [a-z_]+");
      out += std::exchange(before, ',');
      write_string(out, key);
      out += ':';
      TRY(value.write_to(out));
    }
    out += before == '{' ? "{}" : "}";
  } else {
    out += "null";
  }
  return {};
}

Result<std::string> Json::write() const {
  std::string out;
  TRY(write_to(out));
  return out;
}

Result<Json> Json::read(std::string_view bytes) {
  boost::json::error_code error;
  boost::json::parse_options options;
  options.max_depth = kDeepest;
  const auto parsed = boost::json::parse({bytes.data(), bytes.size()}, error, {}, options);
  if (error) return sys::fail(ErrorKind::invalid, "not JSON: " + error.message());
  Json value = convert(parsed);
  auto again = value.write();
  if (!again) return tl::make_unexpected(std::move(again).error());
  if (*again != bytes) return sys::fail(ErrorKind::invalid, "not canonical JSON");
  return value;
}

Json json_of_bytes(std::string_view bytes) {
  if (sys::is_utf8(bytes)) return std::string(bytes);
  return Json::Object{{"b16", sys::to_hex(sys::as_bytes(bytes))}};
}

Result<std::string> bytes_of_json(const Json& value) {
  if (const auto* text = value.get<std::string>()) return *text;
  const auto* object = value.get<Json::Object>();
  const auto* hex = object && object->size() == 1 && object->contains("b16")
                        ? object->find("b16")->second.get<std::string>()
                        : nullptr;
  const auto bytes = hex ? sys::from_hex(*hex) : std::nullopt;
  if (!bytes || sys::is_utf8(sys::as_text(*bytes))) {
    return sys::fail(ErrorKind::invalid, "neither a string nor the b16 form of bytes that are not UTF-8");
  }
  return std::string(sys::as_text(*bytes));
}

}  // namespace turnbox::turn
