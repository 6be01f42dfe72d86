#include "server/access/file_policy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "audit/bearer_token.h"
#include "core/base/status_macros.h"
#include "server/access/certificate.h"

namespace lethe::access {
namespace {

uint64_t FirstBytes(const audit::Digest& digest) {
  uint64_t number = 0;
  std::memcpy(&number, digest.data(), sizeof(number));
  return number;
}

absl::Status Refused(absl::string_view why) { return absl::UnauthenticatedError(why); }

absl::Status Twice(absl::string_view what) { return absl::AlreadyExistsError(what); }

}  // namespace

absl::Status FilePolicy::AddToken(const audit::Digest& digest, Identity identity) {
  const auto [begin, end] = tokens_.equal_range(FirstBytes(digest));
  if (std::any_of(begin, end, [&](const auto& known) { return known.second.digest == digest; })) {
    return Twice("sha256: there is another token with it");
  }
  tokens_.emplace(FirstBytes(digest),
                  Token{digest, std::make_shared<const Identity>(std::move(identity))});
  return absl::OkStatus();
}

absl::Status FilePolicy::AddUri(const std::string& uri, Identity identity) {
  const bool added =
      uris_.try_emplace(uri, std::make_shared<const Identity>(std::move(identity))).second;
  return added ? absl::OkStatus() : Twice("uri: there is another certificate with it");
}

absl::Status FilePolicy::AddDns(const std::string& name, Identity identity) {
  const bool added = dns_.try_emplace(absl::AsciiStrToLower(name),
                                      std::make_shared<const Identity>(std::move(identity)))
                         .second;
  return added ? absl::OkStatus() : Twice("dns: there is another certificate with it");
}

absl::Status FilePolicy::AddIssuer(Issuer issuer) {
  for (const Issuer& known : issuers_) {
    if (known.issuer == issuer.issuer) return Twice("issuer: there is another with it");
  }
  issuers_.push_back(std::move(issuer));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Identity>> FilePolicy::Authenticate(
    const Credentials& credentials,
    absl::Time now) const {
  if (credentials.authorization.size() > 1) return Refused("more than one authorization");
  if (!credentials.authorization.empty()) return OfBearer(credentials.authorization.front(), now);
  if (!credentials.certificate.empty()) return OfCertificate(credentials.certificate, now);
  return Refused("no credentials");
}

absl::StatusOr<FilePolicy::IdentityPtr> FilePolicy::OfBearer(const std::string& header,
                                                             absl::Time now) const {
  constexpr absl::string_view kScheme = "bearer ";  // in any case, RFC 9110
  if (!absl::StartsWithIgnoreCase(header, kScheme)) return Refused("no bearer token");
  const std::string token = header.substr(kScheme.size());
  if (absl::StartsWith(token, audit::kBearerTokenPrefix)) return OfToken(token, now);
  LETHE_ASSIGN_OR_RETURN(Identity identity, VerifyJwt(issuers_, token, now));
  return std::make_shared<const Identity>(std::move(identity));
}

absl::StatusOr<FilePolicy::IdentityPtr> FilePolicy::OfToken(absl::string_view token,
                                                            absl::Time now) const {
  if (!audit::IsBearerToken(token)) return Refused("token: not in its form");
  const audit::Digest digest = audit::DigestOfToken(token);
  const auto [begin, end] = tokens_.equal_range(FirstBytes(digest));
  for (auto known = begin; known != end; ++known) {
    if (!audit::EqualInConstantTime(audit::AsBytes(known->second.digest), audit::AsBytes(digest))) {
      continue;
    }
    if (known->second.identity->expires <= now) return Refused("token: expired");
    return known->second.identity;
  }
  return Refused("token: unknown");
}

absl::StatusOr<FilePolicy::IdentityPtr> FilePolicy::OfCertificate(absl::string_view pem,
                                                                  absl::Time now) const {
  const absl::StatusOr<CertificateNames> names = NamesOf(pem);
  if (!names.ok()) return Refused("certificate: cannot be read");
  if (names->expires <= now) return Refused("certificate: expired");
  std::vector<IdentityPtr> found;
  const auto look = [&found](const std::map<std::string, IdentityPtr>& known,
                             const std::vector<std::string>& wanted) {
    for (const std::string& name : wanted) {
      const auto entry = known.find(name);
      if (entry != known.end() && !std::count(found.begin(), found.end(), entry->second)) {
        found.push_back(entry->second);
      }
    }
  };
  look(uris_, names->uris);
  look(dns_, names->dns);
  if (found.empty()) return Refused("certificate: unknown name");
  // Whose grants would count is anybody's guess.
  if (found.size() > 1) return Refused("certificate: names of more than one caller");
  Identity identity = *found.front();
  identity.expires = std::min(identity.expires, names->expires);
  return std::make_shared<const Identity>(std::move(identity));
}

}  // namespace lethe::access
