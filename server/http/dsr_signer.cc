#include "server/http/dsr_signer.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <utility>
#include <vector>

#include "audit/encoding.h"
#include "audit/hash.h"
#include "core/base/status_macros.h"
#include "server/access/guarded_file.h"
#include "server/http/pem.h"

namespace lethe::http {
namespace {

constexpr int kLeastRsaBits = 2048;

}  // namespace

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

absl::StatusOr<std::unique_ptr<DsrKey>> DsrKey::Load(const std::string& domain,
                                                     const std::string& key_file,
                                                     const std::string& certificate_file) {
  std::unique_ptr<DsrKey> key(new DsrKey(domain, key_file, certificate_file));
  LETHE_RETURN_IF_ERROR(key->ReloadIfChanged().status());
  return key;
}

absl::StatusOr<bool> DsrKey::ReloadIfChanged() {
  using access::ReadGuardedFile;
  using access::Secrecy;
  LETHE_ASSIGN_OR_RETURN(const std::string key_pem,
                         ReadGuardedFile(key_file_, kMaxPemBytes, Secrecy::kPrivate));
  LETHE_ASSIGN_OR_RETURN(const std::string certificate_pem,
                         ReadGuardedFile(certificate_file_, kMaxPemBytes, Secrecy::kPublic));
  const std::string fingerprint =
      audit::Hex(audit::Sha256(key_pem)) + audit::Hex(audit::Sha256(certificate_pem));
  {
    MutexLock lock(mutex_);
    if (fingerprint_ == fingerprint) return false;
    fingerprint_ = fingerprint;
  }
  LETHE_ASSIGN_OR_RETURN(std::shared_ptr<const DsrSigner> signer, Parse(key_pem, certificate_pem));
  MutexLock lock(mutex_);
  current_ = std::move(signer);
  return true;
}

absl::StatusOr<std::shared_ptr<const DsrSigner>> DsrKey::Parse(
    const std::string& key_pem,
    const std::string& certificate_pem) const {
  std::shared_ptr<DsrSigner> signer(new DsrSigner);
  signer->domain_ = domain_;
  signer->certificate_pem_ = certificate_pem;
  LETHE_ASSIGN_OR_RETURN(signer->key_, ParsePrivateKey(key_file_, key_pem));
  LETHE_ASSIGN_OR_RETURN(std::vector<Certificate> chain,
                         ParseCertificates(certificate_file_, certificate_pem));
  const int kind = EVP_PKEY_get_base_id(signer->key_.get());
  if (kind != EVP_PKEY_EC &&
      (kind != EVP_PKEY_RSA || EVP_PKEY_get_bits(signer->key_.get()) < kLeastRsaBits)) {
    return WrongPem(key_file_, "must be an RSA key of 2048 bits or more, or an EC key");
  }
  signer->certificate_ = std::move(chain.front());
  X509* own = signer->certificate_.get();
  if (X509_check_private_key(own, signer->key_.get()) != 1) {
    return WrongPem(certificate_file_, "is not of the key");
  }
  if (X509_check_host(own, domain_.data(), domain_.size(), 0, nullptr) != 1) {
    return WrongPem(certificate_file_, "is not for the domain that is configured");
  }
  return std::shared_ptr<const DsrSigner>(std::move(signer));
}

std::shared_ptr<const DsrSigner> DsrKey::current() const {
  MutexLock lock(mutex_);
  const X509* own = current_->certificate_.get();
  const bool valid = X509_cmp_current_time(X509_get0_notBefore(own)) < 0 &&
                     X509_cmp_current_time(X509_get0_notAfter(own)) > 0;
  return valid ? current_ : nullptr;
}

}  // namespace lethe::http
