#include "server/access/certificate.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <memory>

#include "absl/strings/ascii.h"

namespace lethe::access {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};

absl::Status Bad() { return absl::InvalidArgumentError("the certificate cannot be read"); }

}  // namespace

absl::StatusOr<CertificateNames> NamesOf(absl::string_view pem) {
  const std::unique_ptr<BIO, Free> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const std::unique_ptr<X509, Free> certificate(
      bio == nullptr ? nullptr : PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (certificate == nullptr) return Bad();
  CertificateNames names;
  std::tm until = {};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &until) != 1) return Bad();
  names.expires = absl::FromTM(until, absl::UTCTimeZone());
  const std::unique_ptr<GENERAL_NAMES, Free> all(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; all != nullptr && i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(all.get(), i);
    if (name->type != GEN_URI && name->type != GEN_DNS) continue;
    const ASN1_IA5STRING* text =
        name->type == GEN_URI ? name->d.uniformResourceIdentifier : name->d.dNSName;
    std::string value(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                      static_cast<size_t>(ASN1_STRING_length(text)));
    // What C programs would read as a shorter name.
    if (value.find('\0') != std::string::npos) return Bad();
    if (name->type == GEN_URI) {
      names.uris.push_back(std::move(value));
    } else {
      names.dns.push_back(absl::AsciiStrToLower(value));
    }
  }
  return names;
}

}  // namespace lethe::access
