// Names of demands: lower-case letters, digits and single hyphens, at most 40 characters.
#pragma once

#include <string>
#include <string_view>

namespace turnbox::demand {

// The demand that `turnbox run` makes for itself: «run-» and the last 8 characters of the turn id, in lower
// case.
inline std::string demand_of_turn(std::string_view turn) {
  std::string name = "run-";
  for (const char c : turn.substr(turn.size() - 8))
    name += (c >= 'A' && c <= 'Z') ? static_cast<char>(c + 32) : c;
  return name;
}

}  // namespace turnbox::demand
