// PEM files of certificates and keys, with errors that name the file and hold no byte of it.
// Threads: safe.
#ifndef LETHE_SERVER_HTTP_PEM_H_
#define LETHE_SERVER_HTTP_PEM_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lethe::http {

inline constexpr size_t kMaxPemBytes = size_t{256} << 10;

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

// INVALID_ARGUMENT "<path>: <what>"; OpenSSL's own errors are forgotten.
absl::Status WrongPem(const std::string& path, absl::string_view what);

// All certificates in the text, at least one.
absl::StatusOr<std::vector<Certificate>> ParseCertificates(const std::string& path,
                                                           const std::string& pem);
// A key without a passphrase.
absl::StatusOr<Key> ParsePrivateKey(const std::string& path, const std::string& pem);
absl::StatusOr<Key> ParsePublicKey(const std::string& path, const std::string& pem);

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_PEM_H_
