#include "server/http/dsr_signer.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <vector>

#include "audit/encoding.h"
#include "core/base/status_macros.h"
#include "server/access/guarded_file.h"
#include "server/http/pem.h"

namespace lethe::http {
namespace {

constexpr int kLeastRsaBits = 2048;

}  // namespace

absl::StatusOr<std::unique_ptr<DsrSigner>> DsrSigner::Load(const std::string& domain,
                                                           const std::string& key_file,
                                                           const std::string& certificate_file) {
  using access::ReadGuardedFile;
  using access::Secrecy;
  std::unique_ptr<DsrSigner> signer(new DsrSigner);
  signer->domain_ = domain;
  LETHE_ASSIGN_OR_RETURN(const std::string key_pem,
                         ReadGuardedFile(key_file, kMaxPemBytes, Secrecy::kPrivate));
  LETHE_ASSIGN_OR_RETURN(signer->certificate_pem_,
                         ReadGuardedFile(certificate_file, kMaxPemBytes, Secrecy::kPublic));
  LETHE_ASSIGN_OR_RETURN(signer->key_, ParsePrivateKey(key_file, key_pem));
  LETHE_ASSIGN_OR_RETURN(const std::vector<Certificate> chain,
                         ParseCertificates(certificate_file, signer->certificate_pem_));
  const int kind = EVP_PKEY_get_base_id(signer->key_.get());
  if (kind != EVP_PKEY_EC &&
      (kind != EVP_PKEY_RSA || EVP_PKEY_get_bits(signer->key_.get()) < kLeastRsaBits)) {
    return WrongPem(key_file, "must be an RSA key of 2048 bits or more, or an EC key");
  }
  X509* own = chain.front().get();
  if (X509_check_private_key(own, signer->key_.get()) != 1) {
    return WrongPem(certificate_file, "is not of the key");
  }
  if (X509_check_host(own, domain.data(), domain.size(), 0, nullptr) != 1) {
    return WrongPem(certificate_file, "is not for the domain that is configured");
  }
  if (X509_cmp_current_time(X509_get0_notBefore(own)) > 0 ||
      X509_cmp_current_time(X509_get0_notAfter(own)) < 0) {
    return WrongPem(certificate_file, "is not valid now");
  }
  return signer;
}

absl::StatusOr<std::string> DsrSigner::Sign(absl::string_view body) const {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  const auto* bytes = reinterpret_cast<const unsigned char*>(body.data());
  size_t size = 0;
  std::string signature;
  bool good = context != nullptr &&
              EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key_.get()) == 1 &&
              EVP_DigestSign(context.get(), nullptr, &size, bytes, body.size()) == 1;
  if (good) {
    signature.resize(size);
    good = EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                          bytes, body.size()) == 1;
    signature.resize(size);
  }
  ERR_clear_error();
  if (!good) return absl::InternalError("the answer cannot be signed");
  return audit::Base64(signature);
}

}  // namespace lethe::http
