#include "store/vault/key_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <system_error>

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

absl::Status Prefixed(const absl::Status& status, absl::string_view prefix) {
  absl::Status result(status.code(), absl::StrCat(prefix, ": ", status.message()));
  status.ForEachPayload([&result](absl::string_view type, const absl::Cord& payload) {
    result.SetPayload(type, payload);
  });
  return result;
}

absl::Status SyncFolderOf(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = file >= 0 && ::fsync(file) == 0;
  const int error = errno;
  if (file >= 0) ::close(file);
  if (synced) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(folder, ": fsync: ", std::generic_category().message(error)));
}

}  // namespace

KeyStore::RawFile::~RawFile() { ::close(file_); }

KeyStore::KeyStore(std::string path,
                   absl::string_view tenant_uid,
                   Kms* kms,
                   const KeyStoreOptions& options)
    : path_(std::move(path)),
      tenant_uid_(tenant_uid),
      kms_(kms),
      options_(options),
      cache_(options.cached_keys) {
  LETHE_CHECK(kms != nullptr && options.rewrap_batch >= 1);
}

KeyStore::~KeyStore() = default;

absl::Status KeyStore::Health() const { return broken_.ok() ? db_->health() : broken_; }

// --- Creating, opening, checking

absl::StatusOr<std::unique_ptr<KeyStore>> KeyStore::Create(const std::string& path,
                                                           absl::string_view tenant_uid,
                                                           Kms* kms,
                                                           const KeyStoreOptions& options) {
  LETHE_RETURN_IF_ERROR(CheckHex("tenant uid", tenant_uid, kUidBytes));
  std::unique_ptr<KeyStore> store(new KeyStore(path, tenant_uid, kms, options));
  LETHE_ASSIGN_OR_RETURN(store->db_,
                         Database::Open(path, Database::Mode::kCreate, kKeyStoreIdentity));
  LETHE_RETURN_IF_ERROR(store->OpenRaw());
  LETHE_RETURN_IF_ERROR(store->MakeTables());
  LETHE_RETURN_IF_ERROR(store->db_->CheckpointTruncate());
  LETHE_RETURN_IF_ERROR(SyncFolderOf(path));
  return store;
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
  const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return absl::UnavailableError(
        absl::StrCat(path_, ": cannot read it: ", std::generic_category().message(errno)));
  }
  raw_ = std::make_unique<RawFile>(file);
  return absl::OkStatus();
}

absl::Status KeyStore::MakeTables() {
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
  LETHE_RETURN_IF_ERROR(db_->Execute(
      "CREATE TABLE store (id INTEGER PRIMARY KEY CHECK (id = 1), tenant_uid TEXT NOT NULL) STRICT;"
      "CREATE TABLE epochs (epoch INTEGER PRIMARY KEY, wraps INTEGER NOT NULL) STRICT;"
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

// --- Wrapping

absl::Status KeyStore::CountWraps(uint32_t epoch, uint64_t count) {
  uint64_t before = 0;
  {
    LETHE_ASSIGN_OR_RETURN(Statement select,
                           db_->Prepare("SELECT wraps FROM epochs WHERE epoch = ?1"));
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Int(1, epoch).Step());
    if (row) before = static_cast<uint64_t>(select.ColumnInt(0));
  }
  if (before > options_.max_wraps_per_epoch || count > options_.max_wraps_per_epoch - before) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path_, ": epoch ", epoch, " of the KEK has wrapped ", before,
                     " keys, at most ", options_.max_wraps_per_epoch, "; rotate the KEK"));
  }
  LETHE_ASSIGN_OR_RETURN(Statement upsert,
                         db_->Prepare("INSERT INTO epochs (epoch, wraps) VALUES (?1, ?2)"
                                      " ON CONFLICT (epoch) DO UPDATE SET wraps = excluded.wraps"));
  return upsert.Int(1, epoch).Int(2, static_cast<int64_t>(before + count)).Run();
}

absl::StatusOr<std::vector<std::string>> KeyStore::WrapKeys(uint32_t epoch,
                                                            std::span<const uint64_t> slots,
                                                            std::span<const SecretBytes> keys) {
  std::vector<KeyToWrap> to_wrap;
  to_wrap.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    to_wrap.push_back({&keys[i], WrapContext(tenant_uid_, slots[i], epoch)});
  }
  LETHE_ASSIGN_OR_RETURN(std::vector<std::string> wrapped, kms_->Wrap(epoch, to_wrap));
  const bool whole = wrapped.size() == keys.size() &&
                     std::all_of(wrapped.begin(), wrapped.end(), [](const std::string& bytes) {
                       return bytes.size() == kWrappedKeyBytes;
                     });
  if (whole) return wrapped;
  return absl::InternalError(absl::StrCat(kms_->Location(), ": wrapped keys of a wrong size"));
}

// All of one epoch.
absl::StatusOr<std::vector<SecretBytes>> KeyStore::UnwrapKeys(std::span<const KeySlot> slots) {
  std::vector<KeyToUnwrap> to_unwrap;
  to_unwrap.reserve(slots.size());
  for (const KeySlot& slot : slots) {
    to_unwrap.push_back({slot.wrapped, WrapContext(tenant_uid_, slot.slot, slot.epoch)});
  }
  absl::StatusOr<std::vector<SecretBytes>> keys = kms_->Unwrap(slots[0].epoch, to_unwrap);
  if (!keys.ok()) {
    return Prefixed(keys.status(), absl::StrCat(path_, ": key slots ", slots.front().slot, " to ",
                                                slots.back().slot));
  }
  const bool whole = keys->size() == slots.size() &&
                     std::all_of(keys->begin(), keys->end(), [](const SecretBytes& key) {
                       return key.size() == kDataKeyBytes;
                     });
  if (whole) return keys;
  return absl::InternalError(absl::StrCat(kms_->Location(), ": unwrapped keys of a wrong size"));
}

absl::StatusOr<uint64_t> KeyStore::Allocate(uint64_t count) {
  LETHE_RETURN_IF_ERROR(Health());
  if (count < 1 || count > kMaxAllocate) {
    return absl::InvalidArgumentError(
        absl::StrCat("count: ", count, ", must be 1 to ", kMaxAllocate));
  }
  LETHE_ASSIGN_OR_RETURN(const uint32_t epoch, kms_->CurrentEpoch());
  const uint64_t first = slots_ + 1;
  std::vector<uint64_t> slots;
  std::vector<SecretBytes> keys;
  for (uint64_t i = 0; i < count; ++i) {
    slots.push_back(first + i);
    keys.push_back(SecretBytes::Random(kDataKeyBytes));
  }
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
  LETHE_RETURN_IF_ERROR(CountWraps(epoch, count));
  LETHE_ASSIGN_OR_RETURN(const std::vector<std::string> wrapped, WrapKeys(epoch, slots, keys));
  {
    LETHE_ASSIGN_OR_RETURN(Statement insert,
                           db_->Prepare("INSERT INTO slots (slot, body) VALUES (?1, ?2)"));
    for (size_t i = 0; i < slots.size(); ++i) {
      insert.Int(1, ClampToInt64(slots[i]));
      insert.Blob(2, EncodeSlot(tenant_uid_, {slots[i], epoch, wrapped[i]}));
      LETHE_RETURN_IF_ERROR(insert.Run());
    }
  }
  LETHE_RETURN_IF_ERROR(transaction.Commit());
  slots_ += count;
  for (size_t i = 0; i < slots.size(); ++i) {
    cache_.Put(slots[i], SealingKey(std::move(keys[i]), 0, options_.max_seals_per_key));
  }
  return first;
}

absl::Status KeyStore::WithKey(uint64_t slot,
                               uint64_t prior_seals,
                               absl::FunctionRef<absl::Status(SealingKey&)> use) {
  LETHE_RETURN_IF_ERROR(Health());
  SealingKey* key = cache_.Find(slot);
  if (key == nullptr) {
    LETHE_ASSIGN_OR_RETURN(const std::string body, ReadBody(slot));
    if (IsDestroyed(body)) {
      return absl::FailedPreconditionError(absl::StrCat("key slot ", slot, " was destroyed"));
    }
    LETHE_ASSIGN_OR_RETURN(const KeySlot stored, DecodeSlot(tenant_uid_, slot, body));
    LETHE_ASSIGN_OR_RETURN(std::vector<SecretBytes> keys, UnwrapKeys(std::span(&stored, 1)));
    key = cache_.Put(slot, SealingKey(std::move(keys[0]), prior_seals, options_.max_seals_per_key));
  }
  key->CountAtLeast(prior_seals);
  return use(*key);
}

}  // namespace lethe::store
