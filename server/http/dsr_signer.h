// Signs what is told of erasure requests, as OpenDSR wants it: base64 of an RSA (PKCS #1) or ECDSA
// signature over the SHA-256 of a body, by the key of a certificate that anybody can fetch.
#ifndef LETHE_SERVER_HTTP_DSR_SIGNER_H_
#define LETHE_SERVER_HTTP_DSR_SIGNER_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"

namespace lethe::http {

// A key and its certificate, as they were read. Threads: safe.
class DsrSigner {
 public:
  // The domain that the certificate is for.
  const std::string& domain() const { return domain_; }
  const std::string& certificate_pem() const { return certificate_pem_; }
  // Cost: some 0.1 ms with EC, 1 ms with RSA.
  absl::StatusOr<std::string> Sign(absl::string_view body) const;

 private:
  friend class DsrKey;
  DsrSigner() = default;

  std::string domain_;
  std::string certificate_pem_;
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_{nullptr, EVP_PKEY_free};
  std::unique_ptr<X509, decltype(&X509_free)> certificate_{nullptr, X509_free};
};

// PEM files: the key (RSA of 2,048 bits or more, or EC) without a passphrase, and its certificate
// with those that lead to its root; read anew when they change. Threads: safe.
class DsrKey {
 public:
  // INVALID_ARGUMENT names the file: no such key, a certificate of another one, or one that is not
  // for `domain`; else what reading said. That it has expired, or is not valid yet, is no error.
  static absl::StatusOr<std::unique_ptr<DsrKey>> Load(const std::string& domain,
                                                      const std::string& key_file,
                                                      const std::string& certificate_file);
  DsrKey(const DsrKey&) = delete;
  DsrKey& operator=(const DsrKey&) = delete;

  const std::string& domain() const { return domain_; }
  // Null while the certificate is not valid: nothing can be signed then.
  std::shared_ptr<const DsrSigner> current() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Reads the files where they are not what was read last, good or bad. True: there was something
  // new. After an error what was read before goes on.
  absl::StatusOr<bool> ReloadIfChanged() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  DsrKey(std::string domain, std::string key_file, std::string certificate_file)
      : domain_(std::move(domain)),
        key_file_(std::move(key_file)),
        certificate_file_(std::move(certificate_file)) {}
  absl::StatusOr<std::shared_ptr<const DsrSigner>> Parse(const std::string& key_pem,
                                                         const std::string& certificate_pem) const;

  const std::string domain_;
  const std::string key_file_;
  const std::string certificate_file_;
  mutable Mutex mutex_;
  std::string fingerprint_ ABSL_GUARDED_BY(mutex_);  // of what was read last
  std::shared_ptr<const DsrSigner> current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_DSR_SIGNER_H_
