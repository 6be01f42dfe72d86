// Static bearer tokens, which the command line makes and the server knows by their digest: "lethe_"
// and 256 random bits in base64url. With so many random bits SHA-256 is enough: nobody finds a
// token from it. Threads: safe.
#ifndef LETHE_AUDIT_BEARER_TOKEN_H_
#define LETHE_AUDIT_BEARER_TOKEN_H_

#include <string>

#include "absl/strings/string_view.h"
#include "audit/hash.h"

namespace lethe::audit {

// So that scanners for leaked secrets know one when they see it.
inline constexpr absl::string_view kBearerTokenPrefix = "lethe_";

std::string NewBearerToken();
// Whether it has the form of one that NewBearerToken makes.
bool IsBearerToken(absl::string_view text);
// What the access file holds of it.
Digest DigestOfToken(absl::string_view token);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_BEARER_TOKEN_H_
