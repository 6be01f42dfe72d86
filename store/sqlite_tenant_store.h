// TenantStore over SQLite: one file `<dir>/tenant.db`, one connection that holds it exclusively and
// does every checkpoint itself.
//
// Requires: `dir` exists and belongs to this tenant alone (data_directory.h).
//
// Cost, counted in system calls: a transaction is one fdatasync of the write-ahead log whatever its
// size (two, when the log was emptied before it), so batch what may be batched. An erase adds a
// checkpoint: two fdatasync and a truncation. Measured with rows of 32 coordinates on ext4 over a
// shared virtual disk, two busy cores: 120 to 230 inserts a second one by one, 13,000 rows/s in
// batches of 300, 19,000 in batches of 10,000; 50 erases a second one by one, 4,000 to 5,000 rows/s
// in batches of 300; 250,000 rows/s in LoadTokens. Opening reads no tokens.
//
// Errors, beside those of tenant_store.h: NOT_FOUND where there is no tenant.db; ALREADY_EXISTS
// from CreateTenantStore where there is one; UNAVAILABLE when another connection holds the file;
// FAILED_PRECONDITION for a file of another program, of a newer release, or a folder that cannot be
// written, with what to do; DATA_LOSS for a file that is no database or is damaged.
//
// Source: https://sqlite.org/wal.html, https://sqlite.org/lang_transaction.html
#ifndef LETHE_STORE_SQLITE_TENANT_STORE_H_
#define LETHE_STORE_SQLITE_TENANT_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/tenant_store.h"

namespace lethe::store {

struct SqliteTenantOptions {
  // The file may grow to this many bytes by inserting; 0 for no limit of ours. Erasing is never
  // stopped by it, though a certificate takes room too.
  uint64_t max_bytes = 0;
  // After a commit that leaves the write-ahead log above this size, it is checkpointed.
  uint64_t wal_checkpoint_bytes = 16u << 20;
};

// Makes `<dir>/tenant.db` for a new tenant and opens it. `tenant.state` must be kOpen.
absl::StatusOr<std::unique_ptr<TenantStore>> CreateTenantStore(
    const std::string& dir,
    const TenantRecord& tenant,
    const SqliteTenantOptions& options = {});

// Opens an existing tenant. Checks that the file is ours and of a known version (an earlier one is
// brought up to date in one transaction), rebuilds the root of the log from its leaves and compares
// it with the stored tree, head and checkpoint. Cost O(certificates): half a second for 100,000.
absl::StatusOr<std::unique_ptr<TenantStore>> OpenTenantStore(
    const std::string& dir,
    const SqliteTenantOptions& options = {});

}  // namespace lethe::store

#endif  // LETHE_STORE_SQLITE_TENANT_STORE_H_
