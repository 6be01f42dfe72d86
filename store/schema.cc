#include "store/schema.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "store/token_codec.h"
#include "store/validation.h"
#include "store/vault/bytes.h"
#include "store/vault/sealing.h"

namespace lethe::store {
namespace {

// `memories.key` is a local number that keeps the rows of tokens short. AUTOINCREMENT: a number
// that was used is not given to another memory. `tokens` has a rowid of its own because rows can be
// long and a table clustered by (memory, handle) would keep them in inner pages.
constexpr char kTables[] = R"sql(
CREATE TABLE tenant (
  singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
  name TEXT NOT NULL,
  uid TEXT NOT NULL CHECK (length(uid) = 32),
  log_origin TEXT NOT NULL,
  create_time INTEGER NOT NULL,
  state INTEGER NOT NULL CHECK (state IN (0, 1, 2)),
  index_secret BLOB NOT NULL,
  next_slot INTEGER NOT NULL CHECK (next_slot > 1),
  keys_ended INTEGER NOT NULL DEFAULT 0 CHECK (keys_ended >= 0),
  keys_suspect INTEGER NOT NULL DEFAULT 0 CHECK (keys_suspect IN (0, 1)),
  keys_destroyed INTEGER NOT NULL DEFAULT 0 CHECK (keys_destroyed IN (0, 1)),
  closing_erased INTEGER NOT NULL DEFAULT 0 CHECK (closing_erased >= 0)
) STRICT;

CREATE TABLE memories (
  key INTEGER PRIMARY KEY AUTOINCREMENT,
  uid TEXT NOT NULL UNIQUE CHECK (length(uid) = 32),
  name TEXT NOT NULL UNIQUE,
  config BLOB NOT NULL,
  create_time INTEGER NOT NULL,
  row_check BLOB NOT NULL CHECK (length(row_check) = 32),
  next_handle INTEGER NOT NULL CHECK (next_handle > 0)
) STRICT;

CREATE TABLE tokens (
  rowid INTEGER PRIMARY KEY,
  memory INTEGER NOT NULL REFERENCES memories (key),
  handle INTEGER NOT NULL CHECK (handle > 0),
  id_key BLOB NOT NULL CHECK (length(id_key) = 16),
  subject_key BLOB CHECK (length(subject_key) = 16),
  slot INTEGER NOT NULL CHECK (slot > 1),
  body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX tokens_by_handle ON tokens (memory, handle);
CREATE UNIQUE INDEX tokens_by_id ON tokens (memory, id_key);
CREATE INDEX tokens_by_subject ON tokens (memory, subject_key, handle)
  WHERE subject_key IS NOT NULL;

CREATE TABLE tombstones (
  memory INTEGER NOT NULL REFERENCES memories (key),
  id_key BLOB NOT NULL CHECK (length(id_key) = 16),
  PRIMARY KEY (memory, id_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE certificates (
  sequence INTEGER PRIMARY KEY CHECK (sequence >= 0),
  id TEXT NOT NULL UNIQUE CHECK (length(id) = 64),
  kind TEXT NOT NULL,
  memory_uid TEXT NOT NULL,
  memory_name TEXT NOT NULL,
  create_time INTEGER NOT NULL,
  leaf_hash BLOB NOT NULL UNIQUE CHECK (length(leaf_hash) = 32),
  previous_leaf_hash BLOB UNIQUE CHECK (length(previous_leaf_hash) = 32),
  leaf BLOB NOT NULL,
  envelope BLOB NOT NULL,
  CHECK ((sequence = 0) = (previous_leaf_hash IS NULL))
) STRICT;
CREATE INDEX certificates_by_memory ON certificates (memory_name, sequence);

-- For a certificate: the slots, 8 bytes each, little-endian, that wait to be destroyed, and what it
-- erased (EncodeErased of anchor.h).
CREATE TABLE outbox (
  sequence INTEGER PRIMARY KEY CHECK (sequence >= 0),
  slots BLOB NOT NULL CHECK (length(slots) > 0 AND length(slots) % 8 = 0),
  erased BLOB NOT NULL
) STRICT;

CREATE TABLE requests (
  request_id TEXT PRIMARY KEY,
  fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32),
  answer BLOB NOT NULL,
  create_time INTEGER NOT NULL
) STRICT;

-- Erasure requests (kind 1) and legal holds (kind 2). Nothing personal stands here in clear: `personal`
-- is sealed under `slot`, which no other row has. NULL with a slot: ended, the key is to be destroyed.
CREATE TABLE cases (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE CHECK (length(id) = 32),
  kind INTEGER NOT NULL CHECK (kind IN (1, 2)),
  state INTEGER NOT NULL,
  received INTEGER NOT NULL,
  due INTEGER NOT NULL,
  wake INTEGER,
  callback INTEGER,
  subject_key BLOB CHECK (length(subject_key) = 16),
  facts BLOB NOT NULL,
  slot INTEGER UNIQUE CHECK (slot > 1),
  seals INTEGER NOT NULL CHECK (seals >= 0),
  personal BLOB,
  CHECK (slot IS NOT NULL OR personal IS NULL)
) STRICT;
CREATE INDEX cases_by_kind ON cases (kind, state, number);
CREATE INDEX cases_open ON cases (number) WHERE wake IS NOT NULL OR callback IS NOT NULL;
)sql";

// The tree over the certificates. A row of log_nodes is written once and never changes.
constexpr char kLogTables[] = R"sql(
CREATE TABLE log_nodes (
  level INTEGER NOT NULL CHECK (level >= 1),
  idx INTEGER NOT NULL CHECK (idx >= 0),
  hash BLOB NOT NULL CHECK (length(hash) = 32),
  PRIMARY KEY (level, idx)
) STRICT, WITHOUT ROWID;

CREATE TABLE log_head (
  singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
  size INTEGER NOT NULL CHECK (size >= 0),
  range BLOB NOT NULL CHECK (length(range) % 32 = 0),
  checkpoint BLOB NOT NULL
) STRICT;
INSERT INTO log_head (singleton, size, range, checkpoint) VALUES (1, 0, x'', x'');

CREATE TABLE log_keys (
  first_sequence INTEGER PRIMARY KEY CHECK (first_sequence >= 0),
  vkey TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE cosignatures (
  key_id BLOB NOT NULL PRIMARY KEY CHECK (length(key_id) = 4),
  size INTEGER NOT NULL CHECK (size > 0),
  line BLOB NOT NULL
) STRICT, WITHOUT ROWID;
)sql";

// Of a memory with an encoder: its bytes, sealed under `slot`, which no other row has. Without a
// memory and a body: the memory is deleted, the key is to be destroyed.
constexpr char kEncoderTable[] = R"sql(
CREATE TABLE encoders (
  slot INTEGER PRIMARY KEY CHECK (slot > 1),
  memory INTEGER UNIQUE REFERENCES memories (key),
  body BLOB,
  CHECK ((memory IS NULL) = (body IS NULL))
) STRICT;
)sql";

// What the sealed secret is bound to.
std::string SecretContext(absl::string_view tenant_uid) {
  std::string context = absl::StrCat(absl::string_view("lethe-index-secret\0\1", 20), tenant_uid);
  PutLittleEndian(context, kTenantSlot);
  return context;
}

}  // namespace

absl::Status CreateSchema(Database& database, const TenantRecord& tenant, KeyStore& keys) {
  std::string sealed;
  const auto seal = [&](SealingKey& key) -> absl::Status {
    const SecretBytes secret = SecretBytes::Random(kIndexSecretBytes);
    LETHE_ASSIGN_OR_RETURN(sealed, key.SealSecret(SecretContext(tenant.uid), secret));
    return absl::OkStatus();
  };
  LETHE_RETURN_IF_ERROR(keys.WithKey(kTenantSlot, 0, seal));
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(&database));
  LETHE_RETURN_IF_ERROR(database.Execute(kTables));
  LETHE_RETURN_IF_ERROR(database.Execute(kLogTables));
  {
    LETHE_ASSIGN_OR_RETURN(
        Statement insert,
        database.Prepare("INSERT INTO tenant (singleton, name, uid, log_origin, create_time, state,"
                         " index_secret, next_slot) VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7)"));
    insert.Text(1, tenant.name).Text(2, tenant.uid).Text(3, tenant.log_origin);
    insert.Int(4, tenant.create_time_micros).Int(5, static_cast<int64_t>(tenant.state));
    insert.Blob(6, sealed).Int(7, static_cast<int64_t>(kTenantSlot) + 1);
    LETHE_RETURN_IF_ERROR(insert.Run());
  }
  DatabaseIdentity identity = kTenantIdentity;
  identity.user_version = kFirstFormat;
  LETHE_RETURN_IF_ERROR(database.SetIdentity(identity));
  return transaction.Commit();
}

absl::StatusOr<bool> HasEncoders(Database& database) {
  LETHE_ASSIGN_OR_RETURN(const int64_t version, database.QueryInt("PRAGMA user_version"));
  return version >= kEncoderFormat;
}

absl::Status MakeEncoders(Database& database) {
  LETHE_ASSIGN_OR_RETURN(const bool there, HasEncoders(database));
  if (there) return absl::OkStatus();
  LETHE_RETURN_IF_ERROR(database.Execute(kEncoderTable));
  return database.SetIdentity(kTenantIdentity);
}

absl::StatusOr<StoredTenant> ReadTenant(Database& database) {
  LETHE_ASSIGN_OR_RETURN(
      Statement select,
      database.Prepare("SELECT name, uid, log_origin, create_time, state,"
                       " index_secret, next_slot, keys_destroyed, keys_ended, keys_suspect"
                       " FROM tenant"));
  LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
  if (!row) return absl::DataLossError(absl::StrCat(database.path(), ": no row in table tenant"));
  StoredTenant tenant;
  tenant.record.name = std::string(select.ColumnText(0));
  tenant.record.uid = std::string(select.ColumnText(1));
  tenant.record.log_origin = std::string(select.ColumnText(2));
  tenant.record.create_time_micros = select.ColumnInt(3);
  tenant.record.state = static_cast<TenantState>(select.ColumnInt(4));
  tenant.sealed_secret = std::string(select.ColumnBlob(5));
  tenant.next_slot = static_cast<uint64_t>(select.ColumnInt(6));
  tenant.keys_destroyed = select.ColumnInt(7) != 0;
  tenant.keys_ended = static_cast<uint64_t>(select.ColumnInt(8));
  tenant.keys_suspect = select.ColumnInt(9) != 0;
  return tenant;
}

absl::Status SetNextSlot(Database& database, uint64_t slot) {
  LETHE_ASSIGN_OR_RETURN(Statement update, database.Prepare("UPDATE tenant SET next_slot = ?1"));
  return update.Int(1, ClampToInt64(slot)).Run();
}

absl::Status SetKeysEnded(Database& database, uint64_t keys) {
  LETHE_ASSIGN_OR_RETURN(Statement update, database.Prepare("UPDATE tenant SET keys_ended = ?1"));
  return update.Int(1, ClampToInt64(keys)).Run();
}

absl::StatusOr<SecretBytes> OpenIndexSecret(const Database& database,
                                            const StoredTenant& tenant,
                                            KeyStore& keys) {
  SecretBytes secret;
  const auto open = [&](SealingKey& key) -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(secret,
                           key.OpenSecret(SecretContext(tenant.record.uid), tenant.sealed_secret));
    return absl::OkStatus();
  };
  const absl::Status status = keys.WithKey(kTenantSlot, 0, open);
  if (absl::IsDataLoss(status) || (status.ok() && secret.size() != kIndexSecretBytes)) {
    return absl::DataLossError(
        absl::StrCat(database.path(),
                     ": the secret of its hashes was not sealed with the keys in the vault;"
                     " restore tenant.db, or put the keys back that belong to it"));
  }
  LETHE_RETURN_IF_ERROR(status);
  return secret;
}

}  // namespace lethe::store
