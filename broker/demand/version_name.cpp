#include "broker/demand/version_name.h"

#include <algorithm>

namespace turnbox::demand {
namespace {

using sys::ErrorKind;

constexpr size_t kLongestName = 63;
constexpr size_t kTurn = 26;  // characters of a whole turn id
constexpr size_t kShortest = 4;

bool is_name(std::string_view text) {
  const bool letters = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
  return letters && !text.empty() && text.size() <= kLongestName && text.front() != '-' &&
         text.back() != '-' && text.find("--") == text.npos;
}

bool is_turn(std::string_view text) {
  return text.size() >= kShortest && text.size() <= kTurn && text[0] >= '0' && text[0] <= '7' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
         });
}

tl::unexpected<sys::Error> usage(std::string_view text, const std::string& why) {
  return sys::fail(
      ErrorKind::usage,
      "'" + std::string(text) + "' is no version: " + why +
          "; write DEMAND, DEMAND@NAME, TURN, TURN:before, TURN:outputs/STAGE, TURN:inputs/NAME or FORK");
}

sys::Result<VersionName> stored(std::string_view text, std::string_view turn, std::string_view place) {
  if (!is_turn(turn))
    return usage(text, "'" + std::string(turn) + "' is no turn, or less than 4 characters of one");
  VersionName name{
      .kind = VersionName::Kind::turn, .word = std::string(turn), .name = {}, .place = std::string(place)};
  for (const std::string_view prefix : {"outputs/", "inputs/"}) {
    if (place.starts_with(prefix) && place.size() > prefix.size()) return name;
  }
  if (place == "after" || place == "before") return name;
  return usage(text, "a turn has no place '" + std::string(place) + "'");
}

}  // namespace

sys::Status check_version_name(std::string_view name) {
  if (is_name(name) && name[0] >= 'a' && name[0] <= 'z') return {};
  return sys::fail(ErrorKind::usage,
                   "'" + std::string(name) +
                       "' is no name for a version: start with a letter, go on with lower-case "
                       "letters, digits and single hyphens, at most 63");
}

sys::Result<VersionName> parse_version_name(std::string_view text) {
  const size_t mark = text.find_first_of("@:");
  if (mark != text.npos && text[mark] == '@') {
    const std::string_view demand = text.substr(0, mark), name = text.substr(mark + 1);
    if (!is_name(demand)) return usage(text, "'" + std::string(demand) + "' is no demand");
    if (!is_name(name)) return usage(text, "'" + std::string(name) + "' is no name");
    return VersionName{VersionName::Kind::live, std::string(demand), std::string(name), {}};
  }
  if (mark != text.npos) return stored(text, text.substr(0, mark), text.substr(mark + 1));
  if (is_turn(text)) return stored(text, text, "after");
  if (is_name(text)) return VersionName{VersionName::Kind::word, std::string(text), {}, {}};
  return usage(text, "it is no name and no turn");
}

}  // namespace turnbox::demand
