// The memories of a tenant, internal to the store. Changing functions must run inside the caller's
// transaction. Threads: compatible.
#ifndef LETHE_STORE_MEMORY_TABLE_H_
#define LETHE_STORE_MEMORY_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/sqlite.h"
#include "store/tenant_store.h"

namespace lethe::store {

// A memory as this file knows it.
struct StoredMemory {
  int64_t key = 0;  // memories.key
  MemoryRecord record;
};

class MemoryTable {
 public:
  explicit MemoryTable(Database* database) : database_(database) {}

  // Contracts as in TenantStore; records are held against their check value (DATA_LOSS).
  absl::Status Create(const MemoryRecord& memory);
  // `column`: uid or name. NOT_FOUND names it.
  absl::StatusOr<StoredMemory> Find(absl::string_view column, absl::string_view value);
  absl::StatusOr<std::vector<StoredMemory>> List(absl::string_view after_name, uint32_t limit);
  absl::StatusOr<uint64_t> Count();

  absl::Status SetNextHandle(const StoredMemory& memory, uint64_t next_handle);
  // Of every memory whose next handle is lower.
  absl::Status RaiseNextHandles(uint64_t next_handle);
  // The largest; 1 where there is none.
  absl::StatusOr<uint64_t> LargestNextHandle();
  // Its tokens and tombstones must be gone.
  absl::Status Remove(const StoredMemory& memory);

 private:
  Database* database_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_MEMORY_TABLE_H_
