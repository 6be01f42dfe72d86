// Signs what is told of erasure requests, as OpenDSR wants it: base64 of an RSA (PKCS #1) or ECDSA
// signature over the SHA-256 of a body, by the key of a certificate that anybody can fetch.
#ifndef LETHE_SERVER_HTTP_DSR_SIGNER_H_
#define LETHE_SERVER_HTTP_DSR_SIGNER_H_

#include <openssl/evp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lethe::http {

// Threads: safe.
class DsrSigner {
 public:
  // PEM files: the key (RSA of 2,048 bits or more, or EC) without a passphrase, and its certificate
  // with those that lead to its root. INVALID_ARGUMENT names the file: no such key, a certificate
  // of another one, one that is not for `domain`, or not valid now.
  static absl::StatusOr<std::unique_ptr<DsrSigner>> Load(const std::string& domain,
                                                         const std::string& key_file,
                                                         const std::string& certificate_file);

  // The domain that the certificate is for.
  const std::string& domain() const { return domain_; }
  const std::string& certificate_pem() const { return certificate_pem_; }
  // Cost: some 0.1 ms with EC, 1 ms with RSA.
  absl::StatusOr<std::string> Sign(absl::string_view body) const;

 private:
  DsrSigner() = default;

  std::string domain_;
  std::string certificate_pem_;
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_{nullptr, EVP_PKEY_free};
};

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_DSR_SIGNER_H_
