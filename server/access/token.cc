#include "server/access/token.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "audit/random.h"

namespace lethe::access {
namespace {

constexpr size_t kRandomBytes = 32;
constexpr size_t kEncodedBytes = 43;  // of 32 bytes in base64url without padding

}  // namespace

std::string NewToken() {
  return absl::StrCat(kTokenPrefix, absl::WebSafeBase64Escape(audit::RandomBytes(kRandomBytes)));
}

bool IsToken(absl::string_view text) {
  if (!absl::StartsWith(text, kTokenPrefix)) return false;
  const absl::string_view random = text.substr(kTokenPrefix.size());
  return random.size() == kEncodedBytes && std::all_of(random.begin(), random.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
         });
}

audit::Digest DigestOf(absl::string_view token) { return audit::Sha256(token); }

}  // namespace lethe::access
