// SHA-256 through OpenSSL EVP, and turnbox's one digest rule (docs/RECORD.md, «Digests»):
//   digest(kind, bytes) = SHA-256("turnbox." kind ".v1" NUL bytes)
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "vmm/sys/bytes.h"

struct evp_md_ctx_st;

namespace turnbox::sys {

struct Digest {
  std::array<std::byte, 32> bytes{};
  auto operator<=>(const Digest&) const = default;
};

std::string to_hex(const Digest& digest);
std::optional<Digest> digest_from_hex(std::string_view text);  // 64 lower-case digits, nothing else

// Streaming SHA-256. Not thread-safe; one object a thread.
class Sha256 {
 public:
  Sha256();
  explicit Sha256(std::string_view kind);  // starts with the kind's prefix
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(ByteSpan bytes);
  Digest finish();  // the object starts anew, without a prefix
  void restart(std::string_view kind);

 private:
  struct Free {
    void operator()(evp_md_ctx_st* ctx) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> ctx_;
};

Digest digest_of(std::string_view kind, ByteSpan bytes);
Digest plain_sha256(ByteSpan bytes);

}  // namespace turnbox::sys

template <>
struct std::hash<turnbox::sys::Digest> {
  size_t operator()(const turnbox::sys::Digest& digest) const noexcept {
    size_t value;
    std::memcpy(&value, digest.bytes.data(), sizeof value);
    return value;
  }
};
