// The table of certificates, internal to the store: dense sequences, each naming the leaf before
// it. Append must run inside the caller's transaction. Threads: compatible.
#ifndef LETHE_STORE_CERTIFICATE_LOG_H_
#define LETHE_STORE_CERTIFICATE_LOG_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/sqlite.h"
#include "store/tenant_store.h"

namespace lethe::store {

class CertificateLog {
 public:
  explicit CertificateLog(Database* database) : database_(database) {}

  // DATA_LOSS when a sequence is missing. Cost O(certificates) over index pages.
  absl::Status CheckDense();
  absl::StatusOr<LogHead> Head();
  // FAILED_PRECONDITION unless the certificate continues the log. Writes it, reads it back,
  // compares every field, and asks the verifier about the bytes read back.
  absl::Status Append(const CertificateAppend& append);
  absl::StatusOr<CertificateRecord> Get(absl::string_view id);
  absl::StatusOr<std::vector<CertificateRecord>> List(const CertificateQuery& query);

 private:
  Database* database_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_CERTIFICATE_LOG_H_
