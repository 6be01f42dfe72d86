#include "server/access/tls_files.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "server/access/guarded_file.h"

namespace lethe::access {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;

struct Free {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

int NoPassword(char*, int, int, void*) { return -1; }

absl::Status Bad(absl::string_view option, const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", path, ": ", what));
}

absl::StatusOr<std::string> Read(absl::string_view option,
                                 const std::string& path,
                                 Secrecy secrecy) {
  absl::StatusOr<std::string> bytes = ReadGuardedFile(path, kMaxBytes, secrecy);
  if (!bytes.ok()) return Prefixed(bytes.status(), option);
  return bytes;
}

// Every certificate of the file can be read; the first one, or null when there is none.
absl::StatusOr<Owned<X509>> ReadCertificates(absl::string_view option, const std::string& path) {
  LETHE_ASSIGN_OR_RETURN(const std::string pem, Read(option, path, Secrecy::kPublic));
  const Owned<BIO> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  ERR_clear_error();
  Owned<X509> first(PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr));
  if (first == nullptr) return Bad(option, path, "holds no certificate in PEM");
  while (Owned<X509>(PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr)) != nullptr) {
  }
  const bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!ended) return Bad(option, path, "a certificate in it cannot be read");
  return first;
}

}  // namespace

absl::Status CheckTlsFiles(const TlsFiles& files) {
  if (files.certificate.empty()) return absl::OkStatus();
  LETHE_ASSIGN_OR_RETURN(const Owned<X509> certificate,
                         ReadCertificates("--tls-certificate", files.certificate));
  if (X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0) {
    return Bad("--tls-certificate", files.certificate, "has expired");
  }
  if (X509_cmp_current_time(X509_get0_notBefore(certificate.get())) > 0) {
    return Bad("--tls-certificate", files.certificate, "is not valid yet");
  }
  LETHE_ASSIGN_OR_RETURN(const std::string pem, Read("--tls-key", files.key, Secrecy::kPrivate));
  const Owned<BIO> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  const bool fits = key != nullptr && X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (key == nullptr) return Bad("--tls-key", files.key, "holds no unencrypted key in PEM");
  if (!fits) return Bad("--tls-key", files.key, "is not the key of --tls-certificate");
  if (files.client_ca.empty()) return absl::OkStatus();
  return ReadCertificates("--tls-client-ca", files.client_ca).status();
}

}  // namespace lethe::access
