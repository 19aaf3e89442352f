// The order of a directory: a name's place is a hash with a fixed key, so that it is the same in every
// session, every snapshot and every replay, and stays when other names come and go.
#pragma once

#include <cstdint>
#include <string_view>

namespace turnbox::fs {

// A cookie is 55 bits of hash and 8 bits of rank among names of one hash: 256 ≤ cookie < 2^63 - 256.
inline constexpr unsigned kRankBits = 8;
inline constexpr uint64_t kRanks = uint64_t{1} << kRankBits;

// The cookie of rank 0. SipHash-2-4 with a constant key: a guest that knows it can slow down only its own
// look-ups.
uint64_t name_cookie(std::string_view name);

}  // namespace turnbox::fs
