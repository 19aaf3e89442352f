#include "broker/demand/ulid.h"

#include <sys/random.h>

#include <array>

#include "vmm/sys/result.h"

namespace turnbox::demand {
namespace {

constexpr std::string_view kAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

}  // namespace

std::string make_ulid(uint64_t unix_ms) {
  std::array<uint8_t, 16> bits{};
  for (int i = 0; i < 6; ++i) bits[static_cast<size_t>(i)] = static_cast<uint8_t>(unix_ms >> (8 * (5 - i)));
  TURNBOX_ASSERT(::getrandom(bits.data() + 6, 10, 0) == 10);
  std::string text(26, '0');
  // 130 bits of text for 128 of value: the first character carries three.
  __extension__ unsigned __int128 value = 0;
  for (const uint8_t byte : bits) value = (value << 8) | byte;
  for (size_t i = 26; i-- > 0;) {
    text[i] = kAlphabet[static_cast<size_t>(value & 31)];
    value >>= 5;
  }
  return text;
}

bool is_ulid(std::string_view text) {
  return text.size() == 26 && text[0] <= '7' && text.find_first_not_of(kAlphabet) == std::string_view::npos;
}

std::string demand_of_turn(std::string_view turn) {
  std::string name = "run-";
  for (const char c : turn.substr(turn.size() - 8))
    name += (c >= 'A' && c <= 'Z') ? static_cast<char>(c + 32) : c;
  return name;
}

}  // namespace turnbox::demand
