#include "audit/bearer_token.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "audit/random.h"

namespace lethe::audit {
namespace {

constexpr size_t kRandomBytes = 32;
constexpr size_t kEncodedBytes = 43;  // of 32 bytes in base64url without padding

}  // namespace

std::string NewBearerToken() {
  return absl::StrCat(kBearerTokenPrefix, absl::WebSafeBase64Escape(RandomBytes(kRandomBytes)));
}

bool IsBearerToken(absl::string_view text) {
  if (!absl::StartsWith(text, kBearerTokenPrefix)) return false;
  const absl::string_view random = text.substr(kBearerTokenPrefix.size());
  return random.size() == kEncodedBytes && std::all_of(random.begin(), random.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
         });
}

Digest DigestOfToken(absl::string_view token) { return Sha256(token); }

}  // namespace lethe::audit
