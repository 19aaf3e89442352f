#include "broker/turn/signing_key.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "vmm/sys/fd.h"

namespace turnbox::turn {

using sys::ErrorKind;
using sys::Result;
using sys::Status;

namespace {

constexpr size_t kSeedBytes = 32;

const unsigned char* uchars(const void* at) {
  return static_cast<const unsigned char*>(at);
}

sys::Bytes message_of(std::string_view context, const sys::Digest& digest) {
  sys::Bytes message;
  sys::append(message, sys::as_bytes(context));
  message.push_back(std::byte{0});
  sys::append(message, digest.bytes);
  return message;
}

struct Context {
  Context() : md(EVP_MD_CTX_new()) { TURNBOX_ASSERT(md != nullptr); }
  ~Context() { EVP_MD_CTX_free(md); }
  EVP_MD_CTX* md;
};

// A new seed at `path`, unless somebody was faster. link(2) makes it appear whole, and never replaces one.
Status make_seed(const std::string& dir, const std::string& path) {
  if (::mkdir(dir.c_str(), 0700) < 0 && errno != EEXIST) return sys::fail_errno("cannot make " + dir);
  std::array<unsigned char, kSeedBytes> seed{};
  if (RAND_priv_bytes(seed.data(), static_cast<int>(seed.size())) != 1) {
    return sys::fail(ErrorKind::unavailable, "no random numbers for a signing key");
  }
  std::string beside = path + ".XXXXXX";
  const sys::Fd fd(::mkostemp(beside.data(), O_CLOEXEC));  // mode 0600
  if (!fd) return sys::fail_errno("cannot create a file beside " + path);
  auto write_all = [&]() -> Status {
    TRY(sys::write_full(fd.get(), std::as_bytes(std::span(seed))));
    if (::fsync(fd.get()) < 0) return sys::fail_errno("cannot write " + path);
    if (::link(beside.c_str(), path.c_str()) < 0 && errno != EEXIST)
      return sys::fail_errno("cannot make " + path);
    return {};
  };
  auto made = write_all();
  ::unlink(beside.c_str());
  OPENSSL_cleanse(seed.data(), seed.size());
  struct statvfs fs {};
  if (!made && ::statvfs(dir.c_str(), &fs) == 0 && fs.f_bavail == 0) {
    return sys::fail(ErrorKind::limit, "no space is left to make the signing key " + path +
                                           ": nothing was kept; free some space there and run it again");
  }
  if (!made) return made;
  TRY_ASSIGN(const sys::Fd dir_fd, sys::open_fd(dir.c_str(), O_RDONLY | O_DIRECTORY));
  if (::fsync(dir_fd.get()) < 0) return sys::fail_errno("cannot sync " + dir);
  return {};
}

}  // namespace

sys::Digest key_id(const PublicKey& key) {
  return sys::plain_sha256(key);
}

void SigningKey::Free::operator()(evp_pkey_st* key) const {
  EVP_PKEY_free(key);
}

Result<SigningKey> SigningKey::load_or_make(const std::string& state_dir) {
  const std::string dir = state_dir + "/keys";
  const std::string path = dir + "/record.ed25519";
  auto seed = sys::read_file(path, kSeedBytes);
  if (!seed && seed.error().kind == ErrorKind::not_found) {
    TRY(make_seed(dir, path));
    seed = sys::read_file(path, kSeedBytes);
  }
  if (!seed) return sys::context("the signing key", std::move(seed).error());
  auto key = from_seed(*seed, path);
  OPENSSL_cleanse(seed->data(), seed->size());
  return key;
}

Result<SigningKey> SigningKey::from_seed(std::string_view seed, const std::string& path) {
  SigningKey key;
  if (seed.size() == kSeedBytes) {
    key.key_.reset(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, uchars(seed.data()), seed.size()));
  }
  size_t length = key.public_.size();
  if (!key.key_ || EVP_PKEY_get_raw_public_key(
                       key.key_.get(), reinterpret_cast<unsigned char*>(key.public_.data()), &length) != 1) {
    return sys::fail(ErrorKind::invalid,
                     "the signing key " + path +
                         " is not the 32 bytes of an Ed25519 seed; put back a copy, or move it "
                         "away to have a new one made");
  }
  return key;
}

Signature SigningKey::sign(std::string_view context, const sys::Digest& digest) const {
  const sys::Bytes message = message_of(context, digest);
  const Context ctx;
  Signature signature{};
  size_t length = signature.size();
  TURNBOX_ASSERT(EVP_DigestSignInit(ctx.md, nullptr, nullptr, nullptr, key_.get()) == 1);
  TURNBOX_ASSERT(EVP_DigestSign(ctx.md, reinterpret_cast<unsigned char*>(signature.data()), &length,
                                uchars(message.data()), message.size()) == 1);
  return signature;
}

bool signature_is_good(const PublicKey& key, std::string_view context, const sys::Digest& digest,
                       const Signature& signature) {
  EVP_PKEY* raw = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, uchars(key.data()), key.size());
  if (raw == nullptr) return false;
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> owned(raw, &EVP_PKEY_free);
  const sys::Bytes message = message_of(context, digest);
  const Context ctx;
  return EVP_DigestVerifyInit(ctx.md, nullptr, nullptr, nullptr, raw) == 1 &&
         EVP_DigestVerify(ctx.md, uchars(signature.data()), signature.size(), uchars(message.data()),
                          message.size()) == 1;
}

}  // namespace turnbox::turn
