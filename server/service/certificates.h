// From what the service knows of an erasure to a signed certificate and back.
#ifndef LETHE_SERVER_SERVICE_CERTIFICATES_H_
#define LETHE_SERVER_SERVICE_CERTIFICATES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/certificate.h"
#include "audit/signer.h"
#include "core/svdd/kkt_check.h"
#include "core/svdd/snapshot.h"
#include "server/service/types.h"
#include "store/tenant_store.h"

namespace lethe::service {

// RFC 3339 in UTC with microseconds.
std::string FormatMicros(int64_t micros_since_1970);

// A body with everything that does not depend on the kind: origin, place in the log, build, time,
// what is claimed of each place that held the bytes.
audit::CertificateBody BaseBody(const std::string& origin,
                                const store::LogHead& head,
                                audit::CertificateKind kind,
                                int64_t time_micros);

audit::PartitionSizes ToSizes(const svdd::PartitionCounts& counts);

// What was measured of a state. The empty and warming phases are exact by definition: all zero.
audit::Residuals ResidualsOf(const svdd::Snapshot& snapshot, const svdd::KktReport& check);

// Signs the body and makes the record for the store, with a verifier that runs the public check on
// the bytes read back and compares id and leaf hash. `memory_uid` and `memory_name` may be empty.
// The verifier refers to the signer's key by value.
absl::StatusOr<store::CertificateAppend> SignForStore(const audit::CertificateBody& body,
                                                      const audit::Signer& signer,
                                                      const std::string& memory_uid,
                                                      const std::string& memory_name,
                                                      int64_t time_micros);

// The public check on a stored record. DATA_LOSS names the failing check.
absl::Status VerifyRecord(const store::CertificateRecord& record,
                          const audit::VerificationKey& key);

CertificateInfo ToInfo(const store::CertificateRecord& record);

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_CERTIFICATES_H_
