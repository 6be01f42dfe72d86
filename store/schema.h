// The tables of tenant.db and its identity, internal to the store. Formats 4 and 5.
//
// Formats 1 and 2 had rows in clear. A file of them is refused: what was written in clear cannot be
// taken back by destroying a key, so it cannot become a file that claims that. Format 3 had no
// erasure requests and no holds; no release has written it. Format 5 is format 4 with the table
// `encoders`; a file becomes one with the first memory that has an encoder, so that an older
// release can go on with every file that does not need the newer one.
//
// Every table is STRICT. Rows are sealed (row_keys.h); ids and subjects are indexed by keyed hashes
// only (token_codec.h), under a secret that slot 1 of the tenant's keys seals:
//   tenant.index_secret = SealSecret("lethe-index-secret" 00 01 || tenant uid || slot (8, LE))
// and that is an empty blob from the beginning of a close on. `tenant.next_slot` is the first slot
// that no transaction has taken. `tenant.keys_destroyed` is set before the empty folder of the
// vault is removed: a folder that is not there says nothing, the wrong vault may be given. A row of
// `memories` carries a check over its constant columns, since the configuration decides every bit
// of the memory's state.
#ifndef LETHE_STORE_SCHEMA_H_
#define LETHE_STORE_SCHEMA_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/sqlite.h"
#include "store/tenant_store.h"
#include "store/vault/key_store.h"
#include "store/vault/secret_bytes.h"

namespace lethe::store {

inline constexpr DatabaseIdentity kTenantIdentity = {
    .application_id = 0x4c745431,  // "LtT1"
    .user_version = 5,
    .least_version = 4,
    .older_advice =
        "; formats 1 and 2 held rows in clear, which no destroyed key can take back, and no release"
        " has written format 3, so it is not brought up to date: with the older release export the"
        " log of certificates, then insert the tokens again into a new tenant of this release",
};

// What a new file has.
inline constexpr int32_t kFirstFormat = 4;
inline constexpr int32_t kEncoderFormat = 5;

// The tenant's own key: it seals the secret of the keyed hashes and nothing else.
inline constexpr uint64_t kTenantSlot = 1;

struct StoredTenant {
  TenantRecord record;
  std::string sealed_secret;  // empty once the tenant closes
  uint64_t next_slot = 0;
  bool keys_destroyed = false;  // by DestroyAllKeys
  uint64_t keys_ended = 0;      // keys of rows that AppendShredded has seen destroyed
  bool keys_suspect = false;    // keys that had ended were alive again, and copies of them may be
};

// Makes the tables, stores the tenant with a new random secret, sealed with kTenantSlot of `keys`,
// and marks the file, in one transaction.
absl::Status CreateSchema(Database& database, const TenantRecord& tenant, KeyStore& keys);

absl::StatusOr<StoredTenant> ReadTenant(Database& database);

// Whether the file has the table `encoders`; and inside the caller's transaction: makes it.
absl::StatusOr<bool> HasEncoders(Database& database);
absl::Status MakeEncoders(Database& database);

// Inside the caller's transaction: the first slot that nothing has taken.
absl::Status SetNextSlot(Database& database, uint64_t slot);
// The same: how many keys have ended, those of pending erasures left out.
absl::Status SetKeysEnded(Database& database, uint64_t keys);

// The key of the keyed hashes. DATA_LOSS when kTenantSlot of `keys` did not seal it.
absl::StatusOr<SecretBytes> OpenIndexSecret(const Database& database,
                                            const StoredTenant& tenant,
                                            KeyStore& keys);

}  // namespace lethe::store

#endif  // LETHE_STORE_SCHEMA_H_
