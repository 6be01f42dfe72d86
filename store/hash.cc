#include "store/hash.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace lethe::store {

Bytes32 Sha256(std::initializer_list<absl::string_view> parts) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  LETHE_CHECK(context != nullptr);
  LETHE_CHECK(EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1);
  for (absl::string_view part : parts) {
    LETHE_CHECK(EVP_DigestUpdate(context.get(), part.data(), part.size()) == 1);
  }
  Bytes32 digest;
  unsigned int size = 0;
  LETHE_CHECK(EVP_DigestFinal_ex(context.get(), digest.data(), &size) == 1);
  LETHE_CHECK(size == digest.size());
  return digest;
}

Bytes32 HmacSha256(const Bytes32& key, std::initializer_list<absl::string_view> parts) {
  std::string message;
  for (absl::string_view part : parts) message.append(part.data(), part.size());
  Bytes32 digest;
  unsigned int size = 0;
  const unsigned char* done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                                   reinterpret_cast<const unsigned char*>(message.data()),
                                   message.size(), digest.data(), &size);
  LETHE_CHECK(done != nullptr && size == digest.size());
  return digest;
}

absl::Status RandomBytes(Bytes32& out) {
  if (RAND_bytes(out.data(), static_cast<int>(out.size())) == 1) return absl::OkStatus();
  return absl::UnavailableError("the system's random generator gave no bytes");
}

absl::StatusOr<Bytes32> ToBytes32(absl::string_view bytes) {
  Bytes32 out;
  if (bytes.size() != out.size()) {
    return absl::DataLossError(absl::StrCat("a stored hash has ", bytes.size(), " bytes, not 32"));
  }
  std::memcpy(out.data(), bytes.data(), out.size());
  return out;
}

}  // namespace lethe::store
