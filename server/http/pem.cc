#include "server/http/pem.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "absl/strings/str_cat.h"

namespace lethe::http {
namespace {

using Bytes = std::unique_ptr<BIO, decltype(&BIO_free)>;

int NoPassphrase(char*, int, int, void*) { return -1; }

Bytes Over(const std::string& text) {
  return Bytes(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
}

}  // namespace

absl::Status WrongPem(const std::string& path, absl::string_view what) {
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

absl::StatusOr<std::vector<Certificate>> ParseCertificates(const std::string& path,
                                                           const std::string& pem) {
  const Bytes bytes = Over(pem);
  std::vector<Certificate> certificates;
  while (bytes != nullptr) {
    Certificate next(PEM_read_bio_X509(bytes.get(), nullptr, NoPassphrase, nullptr), X509_free);
    if (next == nullptr) break;
    certificates.push_back(std::move(next));
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (certificates.empty() || !at_end) {
    return WrongPem(path, "no certificate in PEM, or a broken one");
  }
  ERR_clear_error();
  return certificates;
}

absl::StatusOr<Key> ParsePublicKey(const std::string& path, const std::string& pem) {
  const Bytes bytes = Over(pem);
  Key key(PEM_read_bio_PUBKEY(bytes.get(), nullptr, NoPassphrase, nullptr), EVP_PKEY_free);
  if (key == nullptr) return WrongPem(path, "no public key in PEM");
  return key;
}

absl::StatusOr<Key> ParsePrivateKey(const std::string& path, const std::string& pem) {
  const Bytes bytes = Over(pem);
  Key key(PEM_read_bio_PrivateKey(bytes.get(), nullptr, NoPassphrase, nullptr), EVP_PKEY_free);
  if (key == nullptr) return WrongPem(path, "no private key in PEM without a passphrase");
  return key;
}

}  // namespace lethe::http
