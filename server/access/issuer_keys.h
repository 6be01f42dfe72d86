// The public keys of an issuer of signed tokens, and signatures checked with them. Keys and
// signatures are cjose's business (docs/adr/0044); which algorithm a key may be used with is
// decided here, never by a token.
#ifndef LETHE_SERVER_ACCESS_ISSUER_KEYS_H_
#define LETHE_SERVER_ACCESS_ISSUER_KEYS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct _cjose_jwk_int;

namespace lethe::access {

enum class Algorithm : uint8_t { kEs256, kRs256, kPs256 };
// "ES256", "RS256", "PS256"; nullopt for every other, "none" and the symmetric ones among them.
std::optional<Algorithm> ParseAlgorithm(absl::string_view name);

// Threads: safe once filled.
class IssuerKeys {
 public:
  // Keys of P-256, and RSA keys of 2048 to 8192 bits. INVALID_ARGUMENT says what is wrong, without
  // a byte of the key.

  // A public key, or a certificate, in PEM. It has no id.
  absl::Status AddPem(absl::string_view pem);
  // A JWK set. Keys for encryption are passed over; private and symmetric ones are refused.
  absl::Status AddJwks(absl::string_view json);

  size_t size() const { return keys_.size(); }

  // Whether a key that fits the algorithm signed the token (compact form). With a `kid`, only keys
  // with that id and those without any are tried.
  bool Verify(const std::string& token, Algorithm algorithm, absl::string_view kid) const;

 private:
  struct Release {
    void operator()(_cjose_jwk_int* key) const;
  };
  struct Key {
    std::unique_ptr<_cjose_jwk_int, Release> key;
    std::string kid;                     // empty for none
    std::optional<Algorithm> algorithm;  // that it may be used with; nullopt: what its kind allows
  };

  absl::Status Add(Key key);

  std::vector<Key> keys_;
};

}  // namespace lethe::access

#endif  // LETHE_SERVER_ACCESS_ISSUER_KEYS_H_
