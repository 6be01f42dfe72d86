// Signed tokens (JWT, RFC 7519, as RFC 8725 wants them read): of pinned issuers, with pinned
// algorithms and keys, for this server, not for long.
#ifndef LETHE_SERVER_ACCESS_JWT_H_
#define LETHE_SERVER_ACCESS_JWT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/access/identity.h"
#include "server/access/issuer_keys.h"

namespace lethe::access {

inline constexpr size_t kMaxJwtBytes = size_t{8} << 10;
inline constexpr size_t kMaxJwtGrants = 64;

struct Issuer {
  std::string name;      // for log lines
  std::string issuer;    // `iss`, exactly
  std::string audience;  // `aud`, or one of them
  std::vector<Algorithm> algorithms;
  IssuerKeys keys;
  std::string claim = "lethe_grants";  // a list of texts like "clinic:app"
  // What its tokens may grant at most: "*" of a tenant stands for every grant of that role.
  std::vector<Grant> grants;
  absl::Duration max_lifetime = absl::Hours(1);
  absl::Duration clock_skew = absl::Seconds(30);
};

// Whose token this is. `exp` is required, and no more than max_lifetime away (from `iat` too, where
// there is one); `nbf` and `iat` are not in the future. UNAUTHENTICATED with the reason, for the
// log; holds nothing of the token. Cost: one signature check, some 100 microseconds, and only for a
// token whose claims are good. Threads: safe.
absl::StatusOr<Identity> VerifyJwt(const std::vector<Issuer>& issuers,
                                   const std::string& token,
                                   absl::Time now);

}  // namespace lethe::access

#endif  // LETHE_SERVER_ACCESS_JWT_H_
