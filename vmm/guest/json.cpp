#include "vmm/guest/json.h"

#include <algorithm>
#include <iterator>

#include "vmm/sys/bytes.h"

namespace turnbox::guest {
namespace {

using sys::ErrorKind;
using sys::fail;
using sys::Result;
using sys::Status;

constexpr int64_t kMaxInteger = (int64_t{1} << 53) - 1;

void append_utf8(std::string& to, uint32_t code) {
  auto put = [&](uint32_t byte) { to += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Json> whole() {
    TRY_ASSIGN(Json value, read(0));
    skip_space();
    if (at_ != text_.size()) return wrong("bytes after the value");
    return value;
  }

 private:
  tl::unexpected<sys::Error> wrong(std::string_view what) const {
    return fail(ErrorKind::invalid, "JSON: " + std::string(what) + " at byte " + std::to_string(at_));
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }

  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool take_word(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  Result<Json> read(int depth) {
    if (depth > Json::kMaxDepth) return wrong("too many levels");
    if (++values_ > Json::kMaxValues) return wrong("too many values");
    skip_space();
    if (at_ == text_.size()) return wrong("no value");
    if (take('{')) return read_object(depth);
    if (take('[')) return read_array(depth);
    if (take('"')) {
      TRY_ASSIGN(std::string text, read_string());
      return Json(std::move(text));
    }
    if (take_word("true")) return Json(true);
    if (take_word("false")) return Json(false);
    if (take_word("null")) return Json();
    return read_integer();
  }

  Result<Json> read_object(int depth) {
    Json::Object members;
    skip_space();
    if (take('}')) return Json(std::move(members));
    while (true) {
      skip_space();
      if (!take('"')) return wrong("no key");
      TRY_ASSIGN(std::string key, read_string());
      if (std::ranges::any_of(members, [&](const JsonMember& m) { return m.key == key; })) {
        return wrong("a key that stands twice");
      }
      // A key is checked against all before it: bound that work whatever the line holds.
      if (members.size() == 64) return wrong("too many keys");
      skip_space();
      if (!take(':')) return wrong("no colon");
      TRY_ASSIGN(Json value, read(depth + 1));
      members.push_back({std::move(key), std::move(value)});
      skip_space();
      if (take('}')) return Json(std::move(members));
      if (!take(',')) return wrong("no comma");
    }
  }

  Result<Json> read_array(int depth) {
    Json::Array items;
    skip_space();
    if (take(']')) return Json(std::move(items));
    while (true) {
      TRY_ASSIGN(Json value, read(depth + 1));
      items.push_back(std::move(value));
      skip_space();
      if (take(']')) return Json(std::move(items));
      if (!take(',')) return wrong("no comma");
    }
  }

  Result<Json> read_integer() {
    const bool negative = take('-');
    const size_t first = at_;
    int64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      value = value * 10 + (text_[at_] - '0');
      if (value > kMaxInteger) return wrong("a number beyond 2^53-1");
      ++at_;
    }
    if (at_ == first) return wrong("no value");
    if (at_ - first > 1 && text_[first] == '0') return wrong("a number with a leading zero");
    if (at_ < text_.size() && std::string_view(".eE").find(text_[at_]) != std::string_view::npos) {
      return wrong("a number that is no integer");
    }
    return Json(negative ? -value : value);
  }

  Result<uint32_t> read_hex4() {
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      if (at_ == text_.size()) return wrong("a cut escape");
      const char c = text_[at_];
      const bool lower = c >= 'a' && c <= 'f';
      const bool upper = c >= 'A' && c <= 'F';
      if (!lower && !upper && (c < '0' || c > '9')) return wrong("a wrong escape");
      const int digit = lower ? c - 'a' + 10 : upper ? c - 'A' + 10 : c - '0';
      code = code * 16 + static_cast<uint32_t>(digit);
      ++at_;
    }
    return code;
  }

  Status read_escape(std::string& to) {
    if (at_ == text_.size()) return wrong("a cut escape");
    const char c = text_[at_++];
    constexpr std::string_view kFrom = "\"\\/bfnrt";
    constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    if (const size_t i = kFrom.find(c); i != std::string_view::npos) {
      to += kTo[i];
      return {};
    }
    if (c != 'u') return wrong("a wrong escape");
    TRY_ASSIGN(uint32_t code, read_hex4());
    if (code >= 0xdc00 && code < 0xe000) return wrong("half a surrogate pair");
    if (code >= 0xd800 && code < 0xdc00) {
      if (!take_word("\\u")) return wrong("half a surrogate pair");
      TRY_ASSIGN(const uint32_t low, read_hex4());
      if (low < 0xdc00 || low >= 0xe000) return wrong("half a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    append_utf8(to, code);
    return {};
  }

  // After the opening quote.
  Result<std::string> read_string() {
    std::string out;
    while (at_ < text_.size()) {
      const size_t stop = std::min(text_.find_first_of("\"\\", at_), text_.size());
      const std::string_view plain = text_.substr(at_, stop - at_);
      if (std::ranges::any_of(plain, [](char c) { return static_cast<unsigned char>(c) < 0x20; })) {
        return wrong("a control character in a string");
      }
      if (!sys::is_utf8(plain)) return wrong("a string that is not UTF-8");
      out += plain;
      at_ = stop;
      if (take('"')) return out;
      if (take('\\')) TRY(read_escape(out));
    }
    return wrong("a string without an end");
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t values_ = 0;
};

}  // namespace

Result<Json> Json::parse(std::string_view text) {
  return Parser(text).whole();
}

const Json* Json::find(std::string_view key) const {
  const Object* members = object();
  if (members == nullptr) return nullptr;
  for (const JsonMember& member : *members) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

std::string json_text(std::string_view text) {
  if (!sys::is_utf8(text)) return "{\"b16\":\"" + sys::to_hex(sys::as_bytes(text)) + "\"}";
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace turnbox::guest
