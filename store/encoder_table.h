// The encoders of memories, internal to the store: opaque bytes, each sealed as a row is
// (row_keys.h), bound to tenant, memory and slot, under kEncoderSchema. Changing functions must run
// inside the caller's transaction. Contracts and errors as in TenantStore. Threads: compatible.
//
// The table is there from the first memory with an encoder on (schema.h). An encoder ends in two
// steps, as the personal part of a case does: with its memory the row loses its bytes and keeps the
// slot; when the key is destroyed the row goes. The caller counts it among the keys that have
// ended.
#ifndef LETHE_STORE_ENCODER_TABLE_H_
#define LETHE_STORE_ENCODER_TABLE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/memory_table.h"
#include "store/row_keys.h"
#include "store/sqlite.h"
#include "store/vault/key_store.h"

namespace lethe::store {

class EncoderTable {
 public:
  // `keys` may be null for a tenant without rows.
  EncoderTable(Database* database, KeyStore* keys, const std::string& tenant_uid)
      : database_(database), sealer_(keys, tenant_uid, kEncoderSchema) {}

  // Does not finish the taker.
  absl::Status Create(const StoredMemory& memory, absl::string_view bytes, SlotTaker& taker);
  // NOT_FOUND where the memory has none.
  absl::StatusOr<std::string> Get(const StoredMemory& memory);
  // Of a memory that is about to be removed; OK where it has none.
  absl::Status End(const StoredMemory& memory);
  absl::Status EndAll();

  // The slots whose keys are to be destroyed, and afterwards: that they are.
  absl::StatusOr<std::vector<uint64_t>> EndedSlots();
  absl::Status Forget(std::span<const uint64_t> slots);
  // Of all rows.
  static absl::StatusOr<std::vector<uint64_t>> Slots(Database& database);

  // For a restore: takes away the rows that have a slot which `gone` says. Returns the memories of
  // those that had one: they were deleted after the copy was made.
  absl::StatusOr<std::vector<StoredMemory>> RemoveUnder(
      absl::FunctionRef<bool(uint64_t slot)> gone);

 private:
  Database* database_;
  RowSealer sealer_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_ENCODER_TABLE_H_
