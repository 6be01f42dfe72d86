// Erasure requests and legal holds of a tenant, internal to the store. Changing functions must run
// inside the caller's transaction. Contracts and errors as in TenantStore. Threads: compatible.
//
// The personal part is sealed as a row is (row_keys.h), bound to tenant, case and slot, under
// kCaseSchema. It ends in two steps, as an erasure does: `personal` becomes NULL and the slot
// stays; when the key is destroyed the slot goes too. The caller counts it among the keys that have
// ended.
#ifndef LETHE_STORE_CASE_TABLE_H_
#define LETHE_STORE_CASE_TABLE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/row_keys.h"
#include "store/sqlite.h"
#include "store/tenant_store.h"
#include "store/token_codec.h"
#include "store/vault/key_store.h"
#include "store/vault/secret_bytes.h"

namespace lethe::store {

// The columns of an OpenCase, in the order of numbers.
inline constexpr char kSelectOpenCases[] =
    "SELECT number, state, received, due, wake, callback FROM cases"
    " WHERE wake IS NOT NULL OR callback IS NOT NULL ORDER BY number";

class CaseTable {
 public:
  // `keys` may be null for a tenant without rows.
  CaseTable(Database* database,
            KeyStore* keys,
            const std::string& tenant_uid,
            const SecretBytes& index_secret)
      : database_(database),
        tenant_uid_(tenant_uid),
        index_(index_secret),
        sealer_(keys, tenant_uid, kCaseSchema) {}

  static absl::StatusOr<CaseCounts> Count(Database& database);

  // Does not finish the taker.
  absl::StatusOr<CaseRecord> Create(const CaseCreation& creation, SlotTaker& taker);
  absl::Status Update(const CaseUpdate& update);
  // By "id" or "number".
  absl::StatusOr<CaseRecord> GetById(absl::string_view id);
  absl::StatusOr<CaseRecord> GetByNumber(uint64_t number);
  absl::StatusOr<std::string> Personal(absl::string_view id);
  absl::StatusOr<std::vector<CaseRecord>> List(const CaseQuery& query);
  absl::StatusOr<std::vector<OpenCase>> ListOpen();
  absl::StatusOr<std::vector<HeldSubject>> Held();
  HoldKey HoldKeyOf(absl::string_view subject) const {
    return index_.ForHold(tenant_uid_, subject);
  }

  // The slots whose keys are to be destroyed, and afterwards: that they are.
  absl::StatusOr<std::vector<uint64_t>> EndedSlots();
  // Returns the ids.
  absl::StatusOr<std::vector<std::string>> Forget(std::span<const uint64_t> slots);

  // Those that have ended and whose keys are there.
  static absl::StatusOr<std::vector<CaseRecord>> Ended(Database& database);
  // For a file that does not know of an end which the anchor knows of: the case as it ended. What
  // it was before; nullopt when there is no such case, or its key is gone.
  static absl::StatusOr<std::optional<CaseState>> PutEnded(Database& database,
                                                           const CaseRecord& record);
  // No open request is worked on before this time.
  static absl::Status HoldBack(Database& database, int64_t until_micros);

  // For a restore: ends the cases that have a slot which `gone` says, and takes the slot from them.
  // Requests that were open are kFailed, since nobody knows how they ended, holds kReleased.
  // Returns how many of both there were.
  absl::StatusOr<CaseCounts> EndLost(absl::FunctionRef<bool(uint64_t slot)> gone);

 private:
  Database* database_;
  std::string tenant_uid_;
  IndexKeys index_;
  RowSealer sealer_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_CASE_TABLE_H_
