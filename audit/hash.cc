#include "audit/hash.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <bit>

#include "core/base/check.h"

namespace lethe::audit {
namespace {

// Fetched once: looking an algorithm up by name costs more than hashing a tree node.
const EVP_MD* Algorithm() {
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  LETHE_CHECK(algorithm != nullptr);
  return algorithm;
}

}  // namespace

struct Sha256Hasher::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();

  Context() {
    LETHE_CHECK(evp != nullptr);
    Restart();
  }
  ~Context() { EVP_MD_CTX_free(evp); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  void Restart() { LETHE_CHECK(EVP_DigestInit_ex2(evp, Algorithm(), nullptr) == 1); }
};

Sha256Hasher::Sha256Hasher() : context_(std::make_unique<Context>()) {}
Sha256Hasher::~Sha256Hasher() = default;

Sha256Hasher& Sha256Hasher::Update(absl::string_view bytes) {
  LETHE_CHECK(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1);
  return *this;
}

Sha256Hasher& Sha256Hasher::UpdateByte(uint8_t byte) {
  LETHE_CHECK(EVP_DigestUpdate(context_->evp, &byte, 1) == 1);
  return *this;
}

Sha256Hasher& Sha256Hasher::UpdateU32(uint32_t value) {
  std::array<uint8_t, 4> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(value >> (24 - 8 * i));
  return Update(AsBytes(bytes));
}

Sha256Hasher& Sha256Hasher::UpdateU64(uint64_t value) {
  std::array<uint8_t, 8> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(value >> (56 - 8 * i));
  return Update(AsBytes(bytes));
}

Sha256Hasher& Sha256Hasher::UpdateDouble(double value) {
  return UpdateU64(std::bit_cast<uint64_t>(value));
}

Digest Sha256Hasher::Finish() {
  Digest digest{};
  unsigned int size = 0;
  LETHE_CHECK(EVP_DigestFinal_ex(context_->evp, digest.data(), &size) == 1);
  LETHE_CHECK(size == digest.size());
  context_->Restart();
  return digest;
}

Digest Sha256(absl::string_view bytes) {
  thread_local Sha256Hasher hasher;
  return hasher.Update(bytes).Finish();
}

Digest HmacSha256(absl::string_view key, absl::string_view message) {
  Digest digest{};
  size_t size = 0;
  const unsigned char* made =
      EVP_Q_mac(nullptr, "HMAC", nullptr, "SHA256", nullptr, key.data(), key.size(),
                reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                digest.data(), digest.size(), &size);
  LETHE_CHECK(made != nullptr && size == digest.size());
  return digest;
}

bool EqualInConstantTime(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace lethe::audit
