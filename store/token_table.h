// The tokens and tombstones of a tenant, internal to the store. Changing functions must run inside
// the caller's transaction. Threads: compatible.
#ifndef LETHE_STORE_TOKEN_TABLE_H_
#define LETHE_STORE_TOKEN_TABLE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/sqlite.h"
#include "store/tenant_store.h"
#include "store/token_codec.h"

namespace lethe::store {

// A memory as this file knows it.
struct StoredMemory {
  int64_t key = 0;  // memories.key
  MemoryRecord record;
};

class TokenTable {
 public:
  TokenTable(Database* database, const Bytes32& index_secret)
      : database_(database), keys_(index_secret) {}

  // Contracts as in TenantStore. Insert does not move memories.next_handle.
  absl::Status Insert(const StoredMemory& memory, std::span<const TokenRow> rows);
  absl::Status Erase(const StoredMemory& memory, std::span<const uint64_t> handles);
  // Deletes rows and tombstones alike; returns the number of rows.
  absl::StatusOr<uint64_t> EraseMemory(const StoredMemory& memory);

  absl::StatusOr<uint64_t> CountTokens(const StoredMemory& memory);
  absl::StatusOr<MemoryCounts> Count(const StoredMemory& memory);
  absl::StatusOr<std::vector<IdLookup>> FindByIds(const StoredMemory& memory,
                                                  std::span<const std::string> ids);
  absl::StatusOr<std::vector<uint64_t>> FindBySubject(const StoredMemory& memory,
                                                      absl::string_view subject);
  absl::StatusOr<std::vector<TokenRow>> Get(const StoredMemory& memory,
                                            std::span<const uint64_t> handles);
  absl::Status Load(const StoredMemory& memory, absl::FunctionRef<absl::Status(TokenRow&)> visit);

 private:
  // Decodes a row (handle, id_key, subject_key, body) and holds it against its indexed hashes.
  absl::StatusOr<TokenRow> Decode(const StoredMemory& memory, const Statement& row) const;
  absl::StatusOr<int64_t> CountWhere(absl::string_view sql, const StoredMemory& memory);

  Database* database_;
  IndexKeys keys_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_TOKEN_TABLE_H_
