#include "fs/turn/names.h"

#include <algorithm>

namespace turnbox::turn {

bool is_turn_id(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  // 26 digits hold 130 bits, so the first one is at most 7.
  return text.size() == 26 && text[0] <= '7' &&
         std::all_of(text.begin(), text.end(), [&](char c) { return kDigits.find(c) != kDigits.npos; });
}

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > 63) return false;
  char before = '-';
  for (const char c : text) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (!word && (c != '-' || before == '-')) return false;
    before = c;
  }
  return before != '-';
}

bool is_entry_name(std::string_view text) {
  return !text.empty() && text.size() <= 255 && text != "." && text != ".." && text.find('/') == text.npos &&
         text.find('\0') == text.npos;
}

}  // namespace turnbox::turn
