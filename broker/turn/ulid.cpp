#include "broker/turn/ulid.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

namespace turnbox::turn {
namespace {

constexpr std::string_view kDigits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";  // Crockford: no I, L, O, U
constexpr size_t kLength = 26;
__extension__ using Wide = unsigned __int128;

}  // namespace

sys::Result<std::string> new_ulid() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  std::array<uint8_t, 16> raw{};
  for (size_t i = 0; i < 6; ++i) raw[i] = static_cast<uint8_t>(ms >> (8 * (5 - i)));
  if (::getrandom(raw.data() + 6, 10, 0) != 10) return sys::fail_errno("cannot get random numbers");
  Wide value = 0;
  for (const uint8_t byte : raw) value = value << 8 | byte;
  std::string text(kLength, '0');
  for (size_t i = kLength; i-- > 0; value >>= 5) text[i] = kDigits[static_cast<size_t>(value & 31)];
  return text;
}

bool is_ulid(std::string_view text) {
  return text.size() == kLength && text[0] <= '7' && std::all_of(text.begin(), text.end(), [](char c) {
           return kDigits.find(c) != std::string_view::npos;
         });
}

}  // namespace turnbox::turn
