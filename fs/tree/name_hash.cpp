#include "fs/tree/name_hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace turnbox::fs {
namespace {

struct Sip {
  uint64_t a, b, c, d;

  void round() {
    a += b;
    c += d;
    b = std::rotl(b, 13) ^ a;
    d = std::rotl(d, 16) ^ c;
    a = std::rotl(a, 32);
    c += b;
    a += d;
    b = std::rotl(b, 17) ^ c;
    d = std::rotl(d, 21) ^ a;
    c = std::rotl(c, 32);
  }
  void word(uint64_t m) {
    d ^= m;
    round();
    round();
    a ^= m;
  }
};

// Aumasson and Bernstein, «SipHash: a fast short-input PRF», 2012.
uint64_t siphash(std::string_view text, uint64_t k0, uint64_t k1) {
  Sip sip{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573};
  const char* at = text.data();
  for (size_t left = text.size(); left >= 8; left -= 8, at += 8) {
    uint64_t m;
    std::memcpy(&m, at, 8);
    sip.word(m);
  }
  uint64_t last = uint64_t{text.size()} << 56;
  const size_t rest = text.size() % 8;
  uint64_t tail = 0;
  std::memcpy(&tail, at, rest);
  sip.word(last | tail);
  sip.c ^= 0xff;
  for (int i = 0; i < 4; ++i) sip.round();
  return sip.a ^ sip.b ^ sip.c ^ sip.d;
}

constexpr uint64_t kKey0 = 0x7475726e626f7831, kKey1 = 0x6469726f72646572;

}  // namespace

uint64_t name_cookie(std::string_view name) {
  const uint64_t hash = siphash(name, kKey0, kKey1) >> (1 + kRankBits);
  const uint64_t top = (uint64_t{1} << (63 - kRankBits)) - 2;
  return std::clamp<uint64_t>(hash, 1, top) << kRankBits;
}

}  // namespace turnbox::fs
