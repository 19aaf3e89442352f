// Turn ids: ULIDs, 48 bits of milliseconds and 80 random bits in Crockford's base 32, 26 characters.
// They sort by time to the millisecond and name a turn; they are never an authority.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace turnbox::demand {

std::string make_ulid(uint64_t unix_ms);  // random part from getrandom(2)
bool is_ulid(std::string_view text);

// The demand that `turnbox run` makes for itself: «run-» and the last 8 characters of the turn id, in lower
// case.
std::string demand_of_turn(std::string_view turn);

}  // namespace turnbox::demand
