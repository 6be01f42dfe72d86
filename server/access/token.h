// Static bearer tokens: "lethe_" and 256 random bits in base64url. The server keeps their SHA-256
// alone; with so many random bits nothing slower is needed, and nobody can find a token from it.
#ifndef LETHE_SERVER_ACCESS_TOKEN_H_
#define LETHE_SERVER_ACCESS_TOKEN_H_

#include <string>

#include "absl/strings/string_view.h"
#include "audit/hash.h"

namespace lethe::access {

// So that scanners for leaked secrets know one when they see it.
inline constexpr absl::string_view kTokenPrefix = "lethe_";

std::string NewToken();
// Whether it has the form of one that NewToken makes.
bool IsToken(absl::string_view text);
// What the access file holds of it.
audit::Digest DigestOf(absl::string_view token);

}  // namespace lethe::access

#endif  // LETHE_SERVER_ACCESS_TOKEN_H_
