// The token that Transcend's gateway signs its webhooks with: a JWT of ES384 and nothing else.
#ifndef LETHE_SERVER_HTTP_SOMBRA_TOKEN_H_
#define LETHE_SERVER_HTTP_SOMBRA_TOKEN_H_

#include <openssl/evp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/http/pem.h"

namespace lethe::http {

// Threads: safe.
class SombraKey {
 public:
  // A public key of the curve P-384 in PEM. INVALID_ARGUMENT names the file.
  static absl::StatusOr<std::unique_ptr<SombraKey>> Load(const std::string& file);

  // UNAUTHENTICATED unless the token is signed by this key, has not expired (it must say when), and
  // is valid already. Holds nothing of the token.
  absl::Status Verify(const std::string& token, absl::Time now) const;

 private:
  SombraKey() = default;

  Key key_{nullptr, EVP_PKEY_free};
};

}  // namespace lethe::http

#endif  // LETHE_SERVER_HTTP_SOMBRA_TOKEN_H_
