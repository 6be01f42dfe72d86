// The tokens and tombstones of a tenant, rows sealed, internal to the store. Changing functions
// must run inside the caller's transaction. Threads: compatible.
#ifndef LETHE_STORE_TOKEN_TABLE_H_
#define LETHE_STORE_TOKEN_TABLE_H_

#include <cstdint>
#include <optional>
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
#include "store/tenant_store.h"
#include "store/token_codec.h"
#include "store/vault/key_store.h"
#include "store/vault/secret_bytes.h"

namespace lethe::store {

class TokenTable {
 public:
  // `keys` may be null for a tenant without rows.
  TokenTable(Database* database,
             KeyStore* keys,
             const std::string& tenant_uid,
             const SecretBytes& index_secret)
      : database_(database), index_(index_secret), sealer_(keys, tenant_uid) {}

  // Contracts as in TenantStore. Insert does not move memories.next_handle. Neither finishes the
  // taker.
  absl::Status Insert(const StoredMemory& memory, std::span<const TokenRow> rows, SlotTaker& taker);
  // Seals what remains of the subjects anew. Returns the slots of the erased rows, distinct, which
  // no row names any more.
  absl::StatusOr<std::vector<uint64_t>> Erase(const StoredMemory& memory,
                                              std::span<const uint64_t> handles,
                                              SlotTaker& taker);
  // For a restore: deletes those of the rows that are there, leaves tombstones, and lets what
  // remains of their subjects as it is. Returns how many there were.
  absl::StatusOr<uint64_t> EraseAgain(const StoredMemory& memory,
                                      std::span<const uint64_t> handles);
  // Deletes the rows of all memories under slots that `gone` says, without tombstones. Cost
  // O(tokens). Returns how many there were.
  absl::StatusOr<uint64_t> RemoveUnder(absl::FunctionRef<bool(uint64_t slot)> gone);
  struct ErasedMemory {
    uint64_t rows = 0;
    std::vector<uint64_t> slots;  // distinct
  };
  // Deletes rows and tombstones alike.
  absl::StatusOr<ErasedMemory> EraseMemory(const StoredMemory& memory);

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
  // A row as it stands in the file.
  struct StoredRow {
    uint64_t handle = 0;
    std::string id_key;
    std::optional<std::string> subject_key;
    uint64_t slot = 0;
    std::string body;
  };
  // The columns of kSelectRow.
  static StoredRow Read(const Statement& row);
  // Opens and decodes a row and holds it against its indexed hashes.
  absl::StatusOr<TokenRow> Decode(const StoredMemory& memory, const StoredRow& row);
  absl::StatusOr<std::string> Open(const StoredMemory& memory, const StoredRow& row);
  absl::Status Damaged(const StoredMemory& memory, uint64_t handle, absl::string_view what) const;
  struct ErasedRow {
    std::optional<std::string> subject_key;
    uint64_t slot = 0;
  };
  // Deletes rows by handle and leaves tombstones; lives inside the transaction.
  class Eraser;
  // The slot of the subject's live rows; a new one when there are none.
  absl::StatusOr<uint64_t> SlotOfSubject(const StoredMemory& memory,
                                         const IndexHash& subject_key,
                                         SlotTaker& taker);
  struct SubjectKey {
    IndexHash hash{};
    uint64_t slot = 0;
  };
  struct SealedRow {
    uint64_t handle = 0;
    IndexHash id{};
    std::optional<IndexHash> subject;
    uint64_t slot = 0;
    std::string body;
  };
  // Checks the rows of a batch, and finds or takes the keys of their subjects; nothing for a row
  // without one.
  absl::StatusOr<std::vector<SubjectKey>> FindSubjects(const StoredMemory& memory,
                                                       std::span<const TokenRow> rows,
                                                       SlotTaker& taker);
  // Rows of a batch, of which `first_index` is the first; takes the keys of those that have their
  // own. Touches keys.db alone.
  absl::StatusOr<std::vector<SealedRow>> SealPart(const StoredMemory& memory,
                                                  std::span<const TokenRow> rows,
                                                  size_t first_index,
                                                  std::span<const SubjectKey> subjects,
                                                  SlotTaker& taker);
  // Touches tenant.db alone.
  absl::Status InsertPart(const StoredMemory& memory,
                          std::span<const SealedRow> rows,
                          size_t first_index,
                          bool buried);
  // Seals the subject's live rows with a new key, if there are any.
  absl::Status SealAnew(const StoredMemory& memory,
                        absl::string_view subject_key,
                        SlotTaker& taker);
  absl::StatusOr<int64_t> CountWhere(absl::string_view sql, const StoredMemory& memory);

  Database* database_;
  IndexKeys index_;
  RowSealer sealer_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_TOKEN_TABLE_H_
