// What the tests of access share: a folder with an access file, keys of issuers and their tokens,
// certificates. Signatures and certificates are OpenSSL's, by the interface below the library that
// the server uses.
#ifndef LETHE_TESTS_SERVER_ACCESS_TESTING_H_
#define LETHE_TESTS_SERVER_ACCESS_TESTING_H_

#include <openssl/evp.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace lethe::access {

// A file with this mode; the test fails when it cannot be written.
void WriteFile(const std::string& path, absl::string_view text, int mode = 0600);
std::string ReadFile(const std::string& path);

std::string Base64Url(absl::string_view bytes);

// A key pair.
class TestKey {
 public:
  static TestKey P256();
  static TestKey P384();
  static TestKey Rsa(unsigned bits = 2048);

  EVP_PKEY* get() const { return key_.get(); }
  std::string PublicPem() const;
  std::string PrivatePem() const;
  // A JWK of the public half.
  nlohmann::json Jwk(const std::string& kid) const;
  // Over these bytes, in the form of JWS; `alg` is ES256, ES384, RS256 or PS256.
  std::string Sign(absl::string_view alg, absl::string_view bytes) const;

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  };
  explicit TestKey(EVP_PKEY* key) : key_(key, Free()) {}
  std::shared_ptr<EVP_PKEY> key_;
};

// The compact form, signed by the key with the header's own alg.
std::string Jwt(const nlohmann::json& header, const nlohmann::json& claims, const TestKey& key);
// The same of texts that need not be what nlohmann would write.
std::string JwtOfText(absl::string_view header,
                      absl::string_view claims,
                      absl::string_view alg,
                      const TestKey& key);

// A certificate in PEM.
struct CertificateSpec {
  std::string common_name = "test";
  std::vector<std::string> dns = {};
  std::vector<std::string> uris = {};
  absl::Time from = absl::UnixEpoch();  // the present, less an hour
  absl::Duration lifetime = absl::Hours(24);
  bool authority = false;
};
// Signed by the authority, or by itself when `authority_pem` is empty.
std::string MakeCertificate(const CertificateSpec& spec,
                            const TestKey& key,
                            absl::string_view authority_pem,
                            const TestKey& authority_key);

}  // namespace lethe::access

#endif  // LETHE_TESTS_SERVER_ACCESS_TESTING_H_
