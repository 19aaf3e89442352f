// The store's Ed25519 key: `<state>/keys/record.ed25519`, 32 bytes of seed, mode 0600, made at first use.
//
// Signatures are over a context, a NUL and 32 bytes of digest, so that one made for a record says nothing
// elsewhere.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "vmm/sys/digest.h"
#include "vmm/sys/result.h"

struct evp_pkey_st;

namespace turnbox::turn {

using PublicKey = std::array<std::byte, 32>;
using Signature = std::array<std::byte, 64>;

inline constexpr std::string_view kRecordContext = "turnbox.record-signature.v1";
inline constexpr std::string_view kCheckpointContext = "turnbox.checkpoint-signature.v1";

sys::Digest key_id(const PublicKey& key);  // plain SHA-256

class SigningKey {
 public:
  // Two processes that come at once end with one key: it is written beside and linked into place, never
  // replaced.
  static sys::Result<SigningKey> load_or_make(const std::string& state_dir);

  const PublicKey& public_key() const { return public_; }
  Signature sign(std::string_view context, const sys::Digest& digest) const;

 private:
  struct Free {
    void operator()(evp_pkey_st* key) const;
  };
  static sys::Result<SigningKey> from_seed(std::string_view seed, const std::string& path);
  std::unique_ptr<evp_pkey_st, Free> key_;
  PublicKey public_{};
};

bool signature_is_good(const PublicKey& key, std::string_view context, const sys::Digest& digest,
                       const Signature& signature);

}  // namespace turnbox::turn
