// The names that may appear below /turn. The broker checks them too; here they become directory entries.
#pragma once

#include <string_view>

namespace turnbox::turn {

bool is_turn_id(std::string_view text);     // ULID: 26 characters of Crockford's base 32, upper case
bool is_name(std::string_view text);        // demand, thread, stage: [a-z0-9]+(-[a-z0-9]+)*, at most 63
bool is_entry_name(std::string_view text);  // input: any directory entry's name, 1 to 255 bytes

}  // namespace turnbox::turn
