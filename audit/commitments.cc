#include "audit/commitments.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace lethe::audit {
namespace {

Digest Commit(const Salt& salt,
              absl::string_view tag,
              absl::string_view tenant,
              absl::string_view identifier) {
  const absl::string_view zero("\0", 1);
  LETHE_CHECK(tenant.find('\0') == absl::string_view::npos);
  return HmacSha256(AsBytes(salt), absl::StrCat(tag, zero, tenant, zero, identifier));
}

}  // namespace

Digest SubjectCommitment(const Salt& salt, absl::string_view tenant, absl::string_view subject) {
  return Commit(salt, "lethe/subject/v1", tenant, subject);
}

Digest RequestCommitment(const Salt& salt, absl::string_view tenant, absl::string_view request_id) {
  return Commit(salt, "lethe/request/v1", tenant, request_id);
}

}  // namespace lethe::audit
