// The tables of tenant.db and its identity, internal to the store. Format 2.
//
// Format 1 had no tree over the certificates; a file of it is brought up to date when it is opened.
//
// Every table is STRICT. Ids and subjects are indexed by keyed hashes only (token_codec.h). A row
// of `memories` carries a check over its constant columns, since the configuration decides every
// bit of the memory's state.
#ifndef LETHE_STORE_SCHEMA_H_
#define LETHE_STORE_SCHEMA_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/sqlite.h"
#include "store/tenant_store.h"

namespace lethe::store {

inline constexpr DatabaseIdentity kTenantIdentity = {
    .application_id = 0x4c745431,  // "LtT1"
    .user_version = 2,
};

struct StoredTenant {
  TenantRecord record;
  Bytes32 index_secret{};  // key of the keyed hashes
};

// Makes the tables, stores the tenant with a new random secret and marks the file, in one
// transaction.
absl::Status CreateSchema(Database& database, const TenantRecord& tenant);

// Brings a file of an earlier format up to date, in one transaction; nothing to do otherwise. The
// tree of format 2 is made from the certificates; it has no key and no checkpoint until StartLog.
// DATA_LOSS when the certificates are no whole log. Cost O(certificates).
absl::Status MigrateSchema(Database& database);

absl::StatusOr<StoredTenant> ReadTenant(Database& database);

}  // namespace lethe::store

#endif  // LETHE_STORE_SCHEMA_H_
