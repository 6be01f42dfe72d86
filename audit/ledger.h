// Where a tenant's certificates are kept, in the order of the log. One object, one tenant.
//
// An implementation that shares a transaction with other data may offer Append inside it; what
// Append promises then holds from COMMIT on. It keeps bytes and never judges them:
// VerifyCertificate does. Errors of the environment pass through as absl::Status. Threads: one
// writer; see the implementation.
#ifndef LETHE_AUDIT_LEDGER_H_
#define LETHE_AUDIT_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/certificate.h"
#include "audit/hash.h"

namespace lethe::audit {

// The end of the log: what the next certificate must name.
struct LedgerHead {
  uint64_t size = 0;                     // = the next sequence
  std::optional<Digest> last_leaf_hash;  // absent exactly when size is 0

  friend bool operator==(const LedgerHead&, const LedgerHead&) = default;
};

struct LedgerEntry {
  uint64_t sequence = 0;
  std::string id;
  std::string envelope;
  std::string leaf;
  Digest leaf_hash{};
  std::optional<Digest> previous_leaf_hash;
};

class Ledger {
 public:
  virtual ~Ledger() = default;

  virtual absl::StatusOr<LedgerHead> Head() const = 0;
  // Appends at the head. FAILED_PRECONDITION when sequence or previous leaf hash do not continue
  // the log (a fork), ALREADY_EXISTS when the id is there; nothing changes then.
  virtual absl::Status Append(const SignedCertificate& certificate) = 0;
  // NOT_FOUND when there is none.
  virtual absl::StatusOr<LedgerEntry> Get(absl::string_view id) const = 0;
  // Entries with sequence >= from, in order, at most `limit` (1 to 1,000).
  virtual absl::StatusOr<std::vector<LedgerEntry>> List(uint64_t from, size_t limit) const = 0;
};

// A ledger in memory, for tests and tools. Threads: compatible.
class InMemoryLedger final : public Ledger {
 public:
  absl::StatusOr<LedgerHead> Head() const override;
  absl::Status Append(const SignedCertificate& certificate) override;
  absl::StatusOr<LedgerEntry> Get(absl::string_view id) const override;
  absl::StatusOr<std::vector<LedgerEntry>> List(uint64_t from, size_t limit) const override;

 private:
  std::vector<LedgerEntry> entries_;
};

// The entry a store keeps of a certificate.
LedgerEntry MakeLedgerEntry(const SignedCertificate& certificate);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_LEDGER_H_
