// Little-endian loads and stores, hexadecimal, and a bounded reader for bytes that somebody else wrote.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace turnbox::sys {

static_assert(std::endian::native == std::endian::little, "turnbox's formats and virtio are little-endian");

using Bytes = std::vector<std::byte>;
using ByteSpan = std::span<const std::byte>;

template <typename T>
T load_le(const std::byte* at) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <typename T>
void store_le(std::byte* at, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(at, &value, sizeof(T));
}

template <typename T>
void append_le(Bytes& to, T value) {
  const size_t at = to.size();
  to.resize(at + sizeof(T));
  store_le(to.data() + at, value);
}

inline void append(Bytes& to, ByteSpan bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}
inline ByteSpan as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string_view as_text(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string to_hex(ByteSpan bytes);                    // lower case
std::optional<Bytes> from_hex(std::string_view text);  // empty optional unless every digit is [0-9a-f]
bool is_utf8(std::string_view text);                   // well-formed UTF-8: no surrogates, no overlong forms

// Takes from the front and never reads past the end: after the first short take everything fails.
class ByteReader {
 public:
  explicit ByteReader(ByteSpan bytes) : rest_(bytes) {}

  template <typename T>
  std::optional<T> take_le() {
    if (rest_.size() < sizeof(T)) return fail<T>();
    T value = load_le<T>(rest_.data());
    rest_ = rest_.subspan(sizeof(T));
    return value;
  }
  std::optional<ByteSpan> take(uint64_t count) {
    if (rest_.size() < count) return fail<ByteSpan>();
    ByteSpan front = rest_.first(static_cast<size_t>(count));
    rest_ = rest_.subspan(static_cast<size_t>(count));
    return front;
  }
  size_t remaining() const { return rest_.size(); }

 private:
  template <typename T>
  std::optional<T> fail() {
    rest_ = {};
    failed_ = true;
    return std::nullopt;
  }
  ByteSpan rest_;
  bool failed_ = false;

 public:
  bool failed() const { return failed_; }
};

}  // namespace turnbox::sys
