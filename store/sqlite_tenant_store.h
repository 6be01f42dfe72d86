// TenantStore over SQLite and the vault:
//
//   <dir>/tenant.db          rows sealed; one connection that holds it exclusively and does every
//                            checkpoint itself
//   <vault>/<uid>/keys.db    the wrapped data keys (vault/key_store.h)
//   <vault>/<uid>/kek/       the keys that wrap them (vault/file_kms.h), unless another Kms is
//   given
//
// Whoever has tenant.db and not the vault has nothing; an erasure is true for every copy of
// tenant.db, whenever it was made, because the keys are destroyed in the vault. So the two are to
// be kept, and copied, apart.
//
// Requires: `dir` exists and belongs to this tenant alone, `options.vault` exists
// (data_directory.h).
//
// Data keys: slot 1 seals the secret of the keyed hashes; the others are taken in order, as rows
// need them, from blocks made ahead. How far they are taken is written with the rows, in one
// transaction, so what a failed insert or a crash leaves is simply free. Inserts keep a reserve of
// free keys: an erasure, which needs one for each subject of which rows remain, makes new ones only
// when the reserve does not do. Seals of rows that were rolled back count against a key's limit
// until the store is closed, not beyond.
//
// Cost, counted in system calls: a transaction is one fdatasync of the write-ahead log whatever its
// size (two, when the log was emptied before it), so batch what may be batched; a block of keys,
// made for every 256 to 2048 rows that need one, adds a commit of keys.db. An erase adds a
// checkpoint: two fdatasync, a truncation and an fsync of it; DestroyPendingKeys the same on
// keys.db and a pass over it; AppendShredded a transaction. A row of 32 coordinates takes 10
// to 14 us of processor time to insert, 9 to 13 us in LoadTokens (lethe-bench durable-inserts,
// batch-forget, cold-start). Opening looks at the pages of the rows and unseals none. InsertTokens
// of more than 250 rows uses a second thread, which it has ended when it returns.
//
// Errors, beside those of tenant_store.h: NOT_FOUND where there is no tenant.db; ALREADY_EXISTS
// from CreateTenantStore where there is one; UNAVAILABLE when another connection holds the file;
// FAILED_PRECONDITION, with what to do, for a file of another program, of a newer release or of a
// format in which rows were in clear, a folder that cannot be written, keys that are missing, of
// another tenant, or older than the rows (put back), rows older than the keys; DATA_LOSS for a file
// that is no database or is damaged, and for rows that do not open.
//
// Source: https://sqlite.org/wal.html, https://sqlite.org/lang_transaction.html
#ifndef LETHE_STORE_SQLITE_TENANT_STORE_H_
#define LETHE_STORE_SQLITE_TENANT_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/tenant_store.h"
#include "store/vault/key_store.h"
#include "store/vault/kms.h"

namespace lethe::store {

enum class KmsUse : uint8_t {
  kCreate = 0,  // a new tenant's; ALREADY_EXISTS when it has a KEK
  kOpen = 1,    // NOT_FOUND when there is no KEK, also when all were destroyed
};
// Gives the KEK of the tenant. `folder` is the tenant's own in the vault and exists.
using KmsFactory =
    std::function<absl::StatusOr<std::unique_ptr<Kms>>(KmsUse use,
                                                       const std::string& folder,
                                                       const std::string& tenant_uid)>;
// A FileKms in `<folder>/kek`.
absl::StatusOr<std::unique_ptr<Kms>> MakeFileKms(KmsUse use,
                                                 const std::string& folder,
                                                 const std::string& tenant_uid);

struct SqliteTenantOptions {
  // The folder that holds the vaults of all tenants; this tenant's is `<vault>/<uid>`. Required.
  std::string vault = {};
  KmsFactory kms = MakeFileKms;
  KeyStoreOptions keys = {};  // bounds on the work with keys.db
  // Not empty: what the file must say the tenant is called (FAILED_PRECONDITION).
  std::string expected_name = {};
  // Called by OpenTenantStore with the number of keys that had been destroyed, were alive again in
  // a keys.db that was put back from a copy, and are destroyed again.
  std::function<void(uint64_t keys)> on_revived_keys = {};
  // The file may grow to this many bytes by inserting; 0 for no limit of ours. Erasing is never
  // stopped by it, though a certificate takes room too.
  uint64_t max_bytes = 0;
  // After a commit that leaves the write-ahead log above this size, it is checkpointed.
  uint64_t wal_checkpoint_bytes = 16u << 20;
};

// Makes the tenant's vault, durable, then `<dir>/tenant.db`, and opens them. `tenant.state` must be
// kOpen. ALREADY_EXISTS when the vault holds keys of this uid. An error leaves no vault, as far
// as the system lets it; a crash may leave a vault of no tenant (DataDirectory::ListOrphanVaults).
absl::StatusOr<std::unique_ptr<TenantStore>> CreateTenantStore(const std::string& dir,
                                                               const TenantRecord& tenant,
                                                               const SqliteTenantOptions& options);

// Opens an existing tenant. Checks that the file is ours and of this format, that its pages are
// sound and its indexes agree with their tables (SQLite's integrity check), that the keys are
// there, are its own and fit it, rebuilds the root of the log from its leaves and compares it with
// the stored tree, head and checkpoint. A tenant that is closed or closing needs no keys. Cost
// O(certificates + keys + rows): half a second for 100,000 certificates, 60 ms for 100,000 rows.
absl::StatusOr<std::unique_ptr<TenantStore>> OpenTenantStore(const std::string& dir,
                                                             const SqliteTenantOptions& options);

}  // namespace lethe::store

#endif  // LETHE_STORE_SQLITE_TENANT_STORE_H_
