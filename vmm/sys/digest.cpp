#include "vmm/sys/digest.h"

#include <openssl/evp.h>

#include "vmm/sys/result.h"

namespace turnbox::sys {
namespace {

// Fetched once: an implicit fetch on every EVP_DigestInit_ex costs more than hashing a small file.
const EVP_MD* sha256() {
  static const EVP_MD* const md = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  TURNBOX_ASSERT(md != nullptr);
  return md;
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* ctx) const {
  EVP_MD_CTX_free(ctx);
}

Sha256::Sha256() : ctx_(EVP_MD_CTX_new()) {
  TURNBOX_ASSERT(ctx_ && EVP_DigestInit_ex2(ctx_.get(), sha256(), nullptr) == 1);
}

Sha256::Sha256(std::string_view kind) : ctx_(EVP_MD_CTX_new()) {
  TURNBOX_ASSERT(ctx_ != nullptr);
  restart(kind);
}

Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(ByteSpan bytes) {
  TURNBOX_ASSERT(EVP_DigestUpdate(ctx_.get(), bytes.data(), bytes.size()) == 1);
}

Digest Sha256::finish() {
  Digest digest;
  unsigned length = 0;
  auto* out = reinterpret_cast<unsigned char*>(digest.bytes.data());
  TURNBOX_ASSERT(EVP_DigestFinal_ex(ctx_.get(), out, &length) == 1 && length == digest.bytes.size());
  TURNBOX_ASSERT(EVP_DigestInit_ex2(ctx_.get(), sha256(), nullptr) == 1);
  return digest;
}

void Sha256::restart(std::string_view kind) {
  TURNBOX_ASSERT(EVP_DigestInit_ex2(ctx_.get(), sha256(), nullptr) == 1);
  update(as_bytes("turnbox."));
  update(as_bytes(kind));
  update(as_bytes(std::string_view(".v1\0", 4)));
}

Digest digest_of(std::string_view kind, ByteSpan bytes) {
  thread_local Sha256 hash;
  hash.restart(kind);
  hash.update(bytes);
  return hash.finish();
}

Digest plain_sha256(ByteSpan bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

std::string to_hex(const Digest& digest) {
  return to_hex(ByteSpan(digest.bytes));
}

std::optional<Digest> digest_from_hex(std::string_view text) {
  Digest digest;
  if (text.size() != digest.bytes.size() * 2) return std::nullopt;
  auto bytes = from_hex(text);
  if (!bytes) return std::nullopt;
  std::copy(bytes->begin(), bytes->end(), digest.bytes.begin());
  return digest;
}

}  // namespace turnbox::sys
