// Commitments to identifiers: public, and opened only by who has the salt.
//
//     subject  HMAC-SHA256(salt32, "lethe/subject/v1" || 00 || tenant || 00 || subject)
//     request  HMAC-SHA256(salt32, "lethe/request/v1" || 00 || tenant || 00 || request id)
//
// One random salt a request; a plain or fixed-key hash of an identifier would still be personal
// data, since whoever can guess the identifier could confirm the guess. Requires a tenant without
// zero bytes. Threads: safe.
#ifndef LETHE_AUDIT_COMMITMENTS_H_
#define LETHE_AUDIT_COMMITMENTS_H_

#include "absl/strings/string_view.h"
#include "audit/hash.h"
#include "audit/random.h"

namespace lethe::audit {

Digest SubjectCommitment(const Salt& salt, absl::string_view tenant, absl::string_view subject);
Digest RequestCommitment(const Salt& salt, absl::string_view tenant, absl::string_view request_id);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_COMMITMENTS_H_
