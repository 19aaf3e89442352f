#include "broker/cli/text.h"

#include <cstdio>
#include <ctime>

#include "vmm/sys/bytes.h"

namespace turnbox::cli {

std::string printable(std::string_view bytes) {
  const bool utf8 = sys::is_utf8(bytes);
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    // U+0080..U+009F are control characters too; their UTF-8 form starts with 0xc2.
    const bool c1 = byte == 0xc2 && i + 1 < bytes.size() && static_cast<unsigned char>(bytes[i + 1]) < 0xa0;
    const bool c1_tail = byte < 0xa0 && i > 0 && static_cast<unsigned char>(bytes[i - 1]) == 0xc2;
    if (byte >= 0x20 && byte != 0x7f && (byte < 0x80 || (utf8 && !c1 && !c1_tail))) {
      text += bytes[i];
      continue;
    }
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
    text += escaped;
  }
  return text;
}

std::string utc(int64_t unix_ns) {
  const time_t at = static_cast<time_t>(unix_ns / 1'000'000'000);
  tm parts{};
  ::gmtime_r(&at, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%SZ", &parts);
  return text;
}

std::string seconds(std::chrono::milliseconds value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f s", static_cast<double>(value.count()) / 1000);
  return text;
}

std::string bytes(uint64_t count) {
  if (count < 1024) return std::to_string(count) + " B";
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(count) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %s", value, kUnits[unit]);
  return text;
}

}  // namespace turnbox::cli
