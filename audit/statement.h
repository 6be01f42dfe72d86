// The certificate body as a JSON value: the step between text and struct, for those who must tell
// "not canonical" from "not a valid statement". Threads: safe.
#ifndef LETHE_AUDIT_STATEMENT_H_
#define LETHE_AUDIT_STATEMENT_H_

#include "absl/status/statusor.h"
#include "audit/certificate.h"
#include "audit/json.h"

namespace lethe::audit {

// Requires a body that ValidateBody accepts.
Json StatementToJson(const CertificateBody& body);
// INVALID_ARGUMENT names the member; the body passes ValidateBody.
absl::StatusOr<CertificateBody> StatementFromJson(const Json& statement);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_STATEMENT_H_
