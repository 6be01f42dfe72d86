#include "store/vault/key_store.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "store/validation.h"

namespace lethe::store {
namespace {

constexpr size_t kCheckBatch = 1000;
constexpr size_t kUidBytes = 32;
constexpr absl::string_view kRestoreAdvice =
    "; restore keys.db and the KEKs from copies of the same time";

constexpr absl::string_view kDraftSuffix = ".new";

bool Exists(const std::string& path) {
  struct stat info = {};
  return ::lstat(path.c_str(), &info) == 0;
}

// What a crash in Create left, whole or not. It never held a key.
absl::Status RemoveDraft(const std::string& draft) {
  for (const absl::string_view suffix : {"", "-wal", "-shm", "-journal"}) {
    const std::string path = absl::StrCat(draft, suffix);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
      return SystemError(errno, "remove what an earlier call left", path);
    }
  }
  return absl::OkStatus();
}

}  // namespace

KeyStore::KeyStore(std::string path,
                   absl::string_view tenant_uid,
                   Kms* kms,
                   const KeyStoreOptions& options)
    : path_(std::move(path)),
      tenant_uid_(tenant_uid),
      kms_(kms),
      options_(options),
      cache_(options.cached_keys) {
  LETHE_CHECK(kms != nullptr && options.rewrap_batch >= 1 && options.destroy_batch >= 1 &&
              options.evidence_batch >= 1 && options.wrap_block >= 1);
}

KeyStore::~KeyStore() = default;

absl::Status KeyStore::Health() const { return broken_.ok() ? db_->health() : broken_; }

// --- Creating, opening, checking

absl::StatusOr<std::unique_ptr<KeyStore>> KeyStore::Create(const std::string& path,
                                                           absl::string_view tenant_uid,
                                                           Kms* kms,
                                                           const KeyStoreOptions& options) {
  LETHE_RETURN_IF_ERROR(CheckHex("tenant uid", tenant_uid, kUidBytes));
  if (Exists(path)) return absl::AlreadyExistsError(absl::StrCat(path, ": exists"));
  const std::string log = absl::StrCat(path, "-wal");
  if (Exists(log)) {
    return absl::FailedPreconditionError(absl::StrCat(
        log, ": is the log of a key store that is not there; put that back, or move the log away"));
  }
  const std::string draft = absl::StrCat(path, kDraftSuffix);
  LETHE_RETURN_IF_ERROR(RemoveDraft(draft));
  {
    KeyStore maker(draft, tenant_uid, kms, options);
    LETHE_ASSIGN_OR_RETURN(maker.db_,
                           Database::Open(draft, Database::Mode::kCreate, kKeyStoreIdentity));
    LETHE_RETURN_IF_ERROR(maker.MakeTables());
    LETHE_RETURN_IF_ERROR(maker.db_->CheckpointTruncate());
  }  // closing removes the log, which is empty
  if (Exists(absl::StrCat(draft, "-wal"))) {
    return absl::UnavailableError(absl::StrCat(draft, ": its log was not removed"));
  }
  std::unique_ptr<KeyStore> store(new KeyStore(path, tenant_uid, kms, options));
  const absl::Status status = [&]() -> absl::Status {
    if (::renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) != 0) {
      return SystemError(errno, "create it", path);
    }
    return store->OpenNew();
  }();
  if (status.ok()) return store;
  store.reset();
  // It holds no key; what cannot be removed is a whole key store.
  if (!absl::IsAlreadyExists(status)) {
    (void)::unlink(log.c_str());
    (void)::unlink(path.c_str());
  }
  return status;
}

absl::Status KeyStore::OpenNew() {
  LETHE_RETURN_IF_ERROR(SyncFolder(FolderOf(path_)));
  LETHE_ASSIGN_OR_RETURN(db_, Database::Open(path_, Database::Mode::kOpen, kKeyStoreIdentity));
  return OpenRaw();
}

absl::StatusOr<std::unique_ptr<KeyStore>> KeyStore::Open(const std::string& path,
                                                         absl::string_view tenant_uid,
                                                         Kms* kms,
                                                         const KeyStoreOptions& options) {
  LETHE_RETURN_IF_ERROR(CheckHex("tenant uid", tenant_uid, kUidBytes));
  std::unique_ptr<KeyStore> store(new KeyStore(path, tenant_uid, kms, options));
  LETHE_ASSIGN_OR_RETURN(store->db_,
                         Database::Open(path, Database::Mode::kOpen, kKeyStoreIdentity));
  LETHE_RETURN_IF_ERROR(store->OpenRaw());
  if (absl::Status checked = store->CheckAll(); !checked.ok()) return Prefixed(checked, path);
  return store;
}

absl::Status KeyStore::OpenRaw() {
  raw_ = FileDescriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  return raw_.valid() ? absl::OkStatus() : SystemError(errno, "read it", path_);
}

absl::Status KeyStore::MakeTables() {
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
  LETHE_RETURN_IF_ERROR(db_->Execute(
      "CREATE TABLE store (id INTEGER PRIMARY KEY CHECK (id = 1), tenant_uid TEXT NOT NULL) STRICT;"
      "CREATE TABLE epochs (epoch INTEGER PRIMARY KEY, wraps INTEGER NOT NULL,"
      " ending INTEGER NOT NULL DEFAULT 0 CHECK (ending IN (0, 1))) STRICT;"
      "CREATE TABLE slots (slot INTEGER PRIMARY KEY,"
      " body BLOB NOT NULL CHECK (length(body) = 96)) STRICT"));
  {
    LETHE_ASSIGN_OR_RETURN(Statement insert,
                           db_->Prepare("INSERT INTO store (id, tenant_uid) VALUES (1, ?1)"));
    LETHE_RETURN_IF_ERROR(insert.Text(1, tenant_uid_).Run());
  }
  LETHE_RETURN_IF_ERROR(db_->SetIdentity(kKeyStoreIdentity));
  return transaction.Commit();
}

absl::Status KeyStore::CheckFile() {
  LETHE_ASSIGN_OR_RETURN(const std::string damage, db_->QueryText("PRAGMA quick_check(1)"));
  if (damage != "ok") {
    return absl::DataLossError(absl::StrCat("SQLite finds it damaged", kRestoreAdvice));
  }
  LETHE_ASSIGN_OR_RETURN(Statement select, db_->Prepare("SELECT tenant_uid FROM store"));
  LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
  if (!row) return absl::DataLossError(absl::StrCat("names no tenant", kRestoreAdvice));
  if (select.ColumnText(0) == tenant_uid_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "holds the keys of another tenant; put the file of this tenant in its place");
}

absl::Status KeyStore::CheckAll() {
  LETHE_RETURN_IF_ERROR(CheckFile());
  LETHE_ASSIGN_OR_RETURN(const std::vector<uint32_t> epochs, kms_->Epochs());
  std::map<uint32_t, KeySlot> first_of_epoch;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<StoredSlot> batch, ReadBodies(slots_, kCheckBatch));
    for (const StoredSlot& stored : batch) {
      if (stored.slot != slots_ + 1) {
        return absl::DataLossError(
            absl::StrCat("key slot ", slots_ + 1, " is missing", kRestoreAdvice));
      }
      slots_ = stored.slot;
      if (IsDestroyed(stored.body)) continue;
      absl::StatusOr<KeySlot> slot = DecodeSlot(tenant_uid_, stored.slot, stored.body);
      if (!slot.ok()) {
        return absl::DataLossError(absl::StrCat(slot.status().message(), kRestoreAdvice));
      }
      if (!std::binary_search(epochs.begin(), epochs.end(), slot->epoch)) {
        return absl::FailedPreconditionError(absl::StrCat(
            "key slot ", slot->slot, " is wrapped under epoch ", slot->epoch,
            " of the KEK, which is not in ", kms_->Location(),
            "; put that KEK back, or restore keys.db and the KEKs from copies of the same time"));
      }
      first_of_epoch.try_emplace(slot->epoch, *std::move(slot));
    }
    if (batch.size() < kCheckBatch) break;
  }
  for (const auto& [epoch, slot] : first_of_epoch) {
    LETHE_RETURN_IF_ERROR(CheckEpoch(epoch, slot));
  }
  return absl::OkStatus();
}

absl::Status KeyStore::CheckEpoch(uint32_t epoch, const KeySlot& first) {
  const absl::Status status = UnwrapKeys(std::span(&first, 1)).status();
  if (!absl::IsDataLoss(status)) return status;
  return absl::FailedPreconditionError(absl::StrCat(
      "epoch ", epoch, " of the KEK in ", kms_->Location(), " does not unwrap key slot ",
      first.slot, ": the KEK is not the one of this file, or the slot was changed",
      kRestoreAdvice));
}

// --- Rows

absl::StatusOr<std::string> KeyStore::ReadBody(uint64_t slot) {
  LETHE_ASSIGN_OR_RETURN(Statement select, db_->Prepare("SELECT body FROM slots WHERE slot = ?1"));
  LETHE_ASSIGN_OR_RETURN(const bool row, select.Int(1, ClampToInt64(slot)).Step());
  if (!row || slot > slots_) {
    return absl::NotFoundError(absl::StrCat("key slot ", slot, " was never allocated"));
  }
  return std::string(select.ColumnBlob(0));
}

absl::StatusOr<std::vector<KeyStore::StoredSlot>> KeyStore::ReadBodies(uint64_t after,
                                                                       size_t limit) {
  LETHE_ASSIGN_OR_RETURN(
      Statement select,
      db_->Prepare("SELECT slot, body FROM slots WHERE slot > ?1 ORDER BY slot LIMIT ?2"));
  select.Int(1, ClampToInt64(after)).Int(2, static_cast<int64_t>(limit));
  std::vector<StoredSlot> bodies;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return bodies;
    bodies.push_back(
        {static_cast<uint64_t>(select.ColumnInt(0)), std::string(select.ColumnBlob(1))});
  }
}

absl::StatusOr<std::vector<KeyStore::StoredSlot>> KeyStore::ReadBodiesOf(
    std::span<const uint64_t> slots) {
  // Reading on costs a third of looking up.
  constexpr uint64_t kCloseTogether = 3;
  std::vector<StoredSlot> bodies;
  bodies.reserve(slots.size());
  if ((slots.back() - slots.front()) / kCloseTogether > slots.size()) {
    for (uint64_t slot : slots) {
      LETHE_ASSIGN_OR_RETURN(std::string body, ReadBody(slot));
      bodies.push_back({slot, std::move(body)});
    }
    return bodies;
  }
  LETHE_ASSIGN_OR_RETURN(
      Statement select,
      db_->Prepare("SELECT slot, body FROM slots WHERE slot BETWEEN ?1 AND ?2 ORDER BY slot"));
  select.Int(1, ClampToInt64(slots.front())).Int(2, ClampToInt64(slots.back()));
  for (size_t next = 0; next < slots.size();) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) {
      return absl::DataLossError(
          absl::StrCat(path_, ": key slot ", slots[next], " is missing", kRestoreAdvice));
    }
    const auto slot = static_cast<uint64_t>(select.ColumnInt(0));
    if (slot != slots[next]) continue;
    bodies.push_back({slot, std::string(select.ColumnBlob(1))});
    ++next;
  }
  return bodies;
}

absl::Status KeyStore::WriteBodies(std::span<const KeySlot> slots) {
  LETHE_ASSIGN_OR_RETURN(Statement update,
                         db_->Prepare("UPDATE slots SET body = ?2 WHERE slot = ?1"));
  for (const KeySlot& slot : slots) {
    update.Int(1, ClampToInt64(slot.slot)).Blob(2, EncodeSlot(tenant_uid_, slot));
    LETHE_RETURN_IF_ERROR(update.Run());
    LETHE_CHECK(db_->Changes() == 1);
  }
  return absl::OkStatus();
}

absl::StatusOr<SlotState> KeyStore::State(uint64_t slot) {
  LETHE_RETURN_IF_ERROR(Health());
  if (slot == 0 || slot > slots_) return SlotState::kUnknown;
  LETHE_ASSIGN_OR_RETURN(const std::string body, ReadBody(slot));
  return IsDestroyed(body) ? SlotState::kDestroyed : SlotState::kLive;
}

absl::StatusOr<std::vector<uint64_t>> KeyStore::LiveSlots(uint64_t after, uint32_t limit) {
  LETHE_RETURN_IF_ERROR(Health());
  LETHE_ASSIGN_OR_RETURN(
      Statement select,
      db_->Prepare("SELECT slot FROM slots WHERE slot > ?1 AND body <> zeroblob(96)"
                   " ORDER BY slot LIMIT ?2"));
  select.Int(1, ClampToInt64(after)).Int(2, limit);
  std::vector<uint64_t> slots;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return slots;
    slots.push_back(static_cast<uint64_t>(select.ColumnInt(0)));
  }
}

absl::StatusOr<uint64_t> KeyStore::CountLive(uint64_t through) {
  LETHE_RETURN_IF_ERROR(Health());
  LETHE_ASSIGN_OR_RETURN(
      Statement select,
      db_->Prepare("SELECT count(*) FROM slots WHERE slot <= ?1 AND body <> zeroblob(96)"));
  LETHE_RETURN_IF_ERROR(select.Int(1, ClampToInt64(through)).Step().status());
  return static_cast<uint64_t>(select.ColumnInt(0));
}

}  // namespace lethe::store
