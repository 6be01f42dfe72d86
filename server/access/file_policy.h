// The policy that an access file makes (docs/access.md, access_file.cc).
#ifndef LETHE_SERVER_ACCESS_FILE_POLICY_H_
#define LETHE_SERVER_ACCESS_FILE_POLICY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "audit/hash.h"
#include "server/access/access.h"
#include "server/access/jwt.h"

namespace lethe::access {

// Threads: safe once filled.
class FilePolicy final : public Policy {
 public:
  // ALREADY_EXISTS when another one has the same digest, name in a certificate, or `iss`.
  absl::Status AddToken(const audit::Digest& digest, Identity identity);
  absl::Status AddUri(const std::string& uri, Identity identity);
  absl::Status AddDns(const std::string& name, Identity identity);
  absl::Status AddIssuer(Issuer issuer);

  absl::StatusOr<std::shared_ptr<const Identity>> Authenticate(const Credentials& credentials,
                                                               absl::Time now) const override;

 private:
  using IdentityPtr = std::shared_ptr<const Identity>;
  absl::StatusOr<IdentityPtr> OfBearer(const std::string& header, absl::Time now) const;
  absl::StatusOr<IdentityPtr> OfToken(absl::string_view token, absl::Time now) const;
  absl::StatusOr<IdentityPtr> OfCertificate(absl::string_view pem, absl::Time now) const;

  // By the first bytes of their digest. How long a search takes tells of digests, and nobody makes
  // a token from a digest; those that share these bytes are compared in constant time.
  struct Token {
    audit::Digest digest;
    IdentityPtr identity;
  };
  std::multimap<uint64_t, Token> tokens_;
  std::map<std::string, IdentityPtr> uris_;
  std::map<std::string, IdentityPtr> dns_;
  std::vector<Issuer> issuers_;
};

}  // namespace lethe::access

#endif  // LETHE_SERVER_ACCESS_FILE_POLICY_H_
