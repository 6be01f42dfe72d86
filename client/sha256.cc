#include "client/sha256.h"

#include <openssl/evp.h>

#include "absl/strings/escaping.h"
#include "core/base/check.h"

namespace lethe::client {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  LETHE_CHECK(EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;

void Sha256::Update(absl::string_view bytes) {
  LETHE_CHECK(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Finish() {
  std::string digest(32, '\0');
  unsigned int size = 0;
  LETHE_CHECK(EVP_DigestFinal_ex(context_->evp, reinterpret_cast<unsigned char*>(digest.data()),
                                 &size) == 1 &&
              size == digest.size());
  return absl::BytesToHexString(digest);
}

}  // namespace lethe::client
