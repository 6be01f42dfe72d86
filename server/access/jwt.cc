#include "server/access/jwt.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "audit/encoding.h"
#include "audit/hash.h"
#include "core/base/status_macros.h"
#include "server/access/base64_url.h"
#include "server/access/strict_json.h"

namespace lethe::access {
namespace {

using nlohmann::json;

constexpr size_t kEs256SignatureBytes = 64;
constexpr size_t kSubjectHexDigits = 12;
// Seconds; beyond it a double is no exact integer, and nobody means the year 300,000.
constexpr double kMaxNumericDate = 1e12;

absl::Status Refused(absl::string_view why) {
  return absl::UnauthenticatedError(absl::StrCat("token: ", why));
}

// The text of a member; nullopt when there is none, or it is of another kind.
std::optional<std::string> Text(const json& object, const std::string& name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

// A NumericDate. Nullopt in `time` when there is none; false when it is something else.
bool ReadTime(const json& claims, const char* name, std::optional<absl::Time>& time) {
  const auto found = claims.find(name);
  if (found == claims.end()) return true;
  if (!found->is_number()) return false;
  const double seconds = found->get<double>();
  if (!(seconds >= 0 && seconds <= kMaxNumericDate)) return false;
  time = absl::UnixEpoch() + absl::Seconds(seconds);
  return true;
}

struct Header {
  Algorithm algorithm;
  std::string kid;
};

absl::StatusOr<Header> ReadHeader(const json& header) {
  const std::optional<std::string> name = Text(header, "alg");
  const std::optional<Algorithm> algorithm =
      name.has_value() ? ParseAlgorithm(*name) : std::nullopt;
  if (!algorithm.has_value()) return Refused("alg is none that is taken");
  // An extension that we must understand, and do not.
  if (header.contains("crit")) return Refused("has crit");
  if (header.contains("typ")) {
    const std::string type = absl::AsciiStrToLower(Text(header, "typ").value_or("?"));
    if (type != "jwt" && type != "at+jwt") return Refused("typ is none of a token");
  }
  if (header.contains("kid") && !Text(header, "kid").has_value()) return Refused("kid is no text");
  return Header{*algorithm, Text(header, "kid").value_or("")};
}

bool IsAudience(const json& claims, const std::string& audience) {
  const auto found = claims.find("aud");
  if (found == claims.end()) return false;
  if (found->is_string()) return found->get<std::string>() == audience;
  return found->is_array() && std::any_of(found->begin(), found->end(), [&](const json& one) {
           return one.is_string() && one.get<std::string>() == audience;
         });
}

absl::StatusOr<absl::Time> CheckTimes(const Issuer& issuer, const json& claims, absl::Time now) {
  std::optional<absl::Time> expires;
  std::optional<absl::Time> issued;
  std::optional<absl::Time> begins;
  if (!ReadTime(claims, "exp", expires) || !ReadTime(claims, "iat", issued) ||
      !ReadTime(claims, "nbf", begins)) {
    return Refused("exp, iat or nbf is no time");
  }
  if (!expires.has_value()) return Refused("has no exp");
  const absl::Time until = *expires + issuer.clock_skew;
  if (until <= now) return Refused("expired");
  if (begins.has_value() && *begins - issuer.clock_skew > now) return Refused("not yet valid");
  if (issued.has_value() && *issued - issuer.clock_skew > now) return Refused("of the future");
  if (*expires - now > issuer.max_lifetime + issuer.clock_skew ||
      (issued.has_value() && *expires - *issued > issuer.max_lifetime)) {
    return Refused("lives longer than max_lifetime");
  }
  return until;
}

bool MayGive(const Issuer& issuer, const Grant& grant) {
  return std::any_of(issuer.grants.begin(), issuer.grants.end(), [&](const Grant& most) {
    return most.role == grant.role && (most.tenant == kEveryTenant || most.tenant == grant.tenant);
  });
}

absl::StatusOr<std::vector<Grant>> ReadGrants(const Issuer& issuer, const json& claims) {
  const auto found = claims.find(issuer.claim);
  if (found == claims.end() || !found->is_array()) {
    return Refused("the claim with the grants is no list");
  }
  if (found->size() > kMaxJwtGrants) return Refused("too many grants");
  std::vector<Grant> grants;
  for (const json& one : *found) {
    if (!one.is_string()) return Refused("a grant is no text");
    const absl::StatusOr<Grant> grant = ParseGrant(one.get<std::string>());
    if (!grant.ok()) return Refused("a grant cannot be read");
    if (!MayGive(issuer, *grant)) return Refused("a grant that its issuer may not give");
    grants.push_back(*grant);
  }
  return grants;
}

// Tells accounts of an issuer apart in the operations log without naming them.
std::string NameOf(const Issuer& issuer, const json& claims) {
  const std::optional<std::string> subject = Text(claims, "sub");
  if (!subject.has_value()) return issuer.name;
  const std::string digest = audit::Hex(audit::Sha256(absl::StrCat(issuer.issuer, "\n", *subject)));
  return absl::StrCat(issuer.name, "#", digest.substr(0, kSubjectHexDigits));
}

}  // namespace

absl::StatusOr<Identity> VerifyJwt(const std::vector<Issuer>& issuers,
                                   const std::string& token,
                                   absl::Time now) {
  if (token.size() > kMaxJwtBytes) return Refused("too long");
  const std::vector<std::string> parts = absl::StrSplit(token, '.');
  if (parts.size() != 3) return Refused("not in three parts");
  std::array<std::string, 3> decoded;
  for (size_t i = 0; i < decoded.size(); ++i) {
    std::optional<std::string> bytes = DecodeBase64Url(parts[i]);
    if (!bytes.has_value()) return Refused("no base64url");
    decoded[i] = *std::move(bytes);
  }
  const absl::StatusOr<json> header_json = ParseStrictObject(decoded[0]);
  if (!header_json.ok()) return Refused(absl::StrCat("header: ", header_json.status().message()));
  const absl::StatusOr<json> claims = ParseStrictObject(decoded[1]);
  if (!claims.ok()) return Refused(absl::StrCat("claims: ", claims.status().message()));
  LETHE_ASSIGN_OR_RETURN(const Header header, ReadHeader(*header_json));

  // Who it claims to be of decides which keys count; a key of another issuer never does.
  const std::optional<std::string> iss = Text(*claims, "iss");
  const auto issuer = std::find_if(issuers.begin(), issuers.end(), [&](const Issuer& known) {
    return iss.has_value() && known.issuer == *iss;
  });
  if (issuer == issuers.end()) return Refused("of an unknown issuer");
  if (std::find(issuer->algorithms.begin(), issuer->algorithms.end(), header.algorithm) ==
      issuer->algorithms.end()) {
    return Refused("alg is none of its issuer's");
  }
  if (header.algorithm == Algorithm::kEs256 && decoded[2].size() != kEs256SignatureBytes) {
    return Refused("bad signature");
  }
  if (!IsAudience(*claims, issuer->audience)) return Refused("for another audience");
  LETHE_ASSIGN_OR_RETURN(const absl::Time expires, CheckTimes(*issuer, *claims, now));
  LETHE_ASSIGN_OR_RETURN(std::vector<Grant> grants, ReadGrants(*issuer, *claims));
  if (!issuer->keys.Verify(token, header.algorithm, header.kid)) return Refused("bad signature");
  return Identity{
      .name = NameOf(*issuer, *claims), .grants = std::move(grants), .expires = expires};
}

}  // namespace lethe::access
