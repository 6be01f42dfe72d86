#include "store/sqlite_tenant_store.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/disk_full.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "store/anchor.h"
#include "store/case_table.h"
#include "store/certificate_log.h"
#include "store/encoder_table.h"
#include "store/outbox.h"
#include "store/sqlite_tenant.h"
#include "store/validation.h"

namespace lethe::store {
namespace {

// That an anchor takes at a time when it follows a log.
constexpr uint32_t kEntriesAtOnce = 256;

constexpr absl::string_view kClosed = "the tenant is closed: its log can be read, no more";

std::string FileOf(const std::string& dir) { return absl::StrCat(dir, "/tenant.db"); }

constexpr absl::string_view kOlderAdvice =
    "; put the present tenant.db back, or restore a backup, which does the erasures again";

// The structure of every page. What rows say is shown by their seals when they are read, and what
// an index has lost by the others then.
absl::Status CheckPages(Database& database) {
  LETHE_ASSIGN_OR_RETURN(const std::string found, database.QueryText("PRAGMA quick_check(1)"));
  if (found == "ok") return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(database.path(), ": damaged, as SQLite finds: ", found,
                                          "; restore the tenant from a backup"));
}

// That the log continues the anchor, which a crash may have left an entry behind, and a copy that
// was put back any number of them.
absl::Status CheckAnchor(Database& database, const StoredTenant& tenant, const Anchor& anchor) {
  CertificateLog log(&database, tenant.record.log_origin);
  LETHE_ASSIGN_OR_RETURN(const LogHead head, log.Head());
  const uint64_t size = anchor.head().size;
  if (size > head.count) {
    return absl::FailedPreconditionError(
        absl::StrCat(database.path(), ": its log has ", head.count, " certificates, but ", size,
                     " were written (", anchor.path(),
                     "): it is an older copy, in which what was erased since"
                     " is not",
                     kOlderAdvice));
  }
  if (size > 0) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<Bytes32> leaf, log.Nodes(0, size - 1, 1));
    // A leaf names the one before it, so one leaf stands for all that are before it.
    if (leaf.empty() || leaf.front() != anchor.head().leaf_hash) {
      return absl::FailedPreconditionError(
          absl::StrCat(database.path(), ": its log is another than the one that was written (",
                       anchor.path(), "): certificate ", size - 1, " differs", kOlderAdvice));
    }
  }
  return absl::OkStatus();
}

// How cases ended, where the file and the anchor do not say the same: a crash came between the two,
// or the file is a copy of a time without certificates since, and what ended does not come back.
absl::Status AgreeOnEnds(Database& database, Anchor& anchor) {
  LETHE_ASSIGN_OR_RETURN(const std::vector<CaseRecord> in_file, CaseTable::Ended(database));
  LETHE_ASSIGN_OR_RETURN(const std::vector<CaseRecord> anchored, anchor.Ended());
  const auto same = [](const CaseRecord& a, const CaseRecord& b) {
    return a.id == b.id && a.state == b.state && a.due_micros == b.due_micros &&
           a.wake_micros == b.wake_micros && a.callback_micros == b.callback_micros &&
           a.facts == b.facts && a.personal == b.personal;
  };
  std::map<std::string, const CaseRecord*> missing;  // in the anchor
  for (const CaseRecord& record : in_file) missing[record.id] = &record;
  std::vector<std::string> over;
  std::vector<const CaseRecord*> unknown;  // to the file
  for (const CaseRecord& record : anchored) {
    const auto known = missing.find(record.id);
    if (known == missing.end()) {
      unknown.push_back(&record);
    } else if (same(*known->second, record)) {
      missing.erase(known);
    }
  }
  if (!unknown.empty()) {
    LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(&database));
    for (const CaseRecord* record : unknown) {
      LETHE_ASSIGN_OR_RETURN(const std::optional<CaseState> before,
                             CaseTable::PutEnded(database, *record));
      if (!before.has_value()) over.push_back(record->id);
    }
    LETHE_RETURN_IF_ERROR(transaction.Commit());
  }
  for (const auto& [id, record] : missing) LETHE_RETURN_IF_ERROR(anchor.PutEnded(*record));
  return anchor.DropEnded(over);
}

// After CheckAnchor and what else refuses, since it may write.
absl::Status BringAnchorUp(Database& database, const StoredTenant& tenant, Anchor& anchor) {
  CertificateLog log(&database, tenant.record.log_origin);
  Outbox outbox(&database);
  LETHE_ASSIGN_OR_RETURN(const LogHead head, log.Head());
  LETHE_ASSIGN_OR_RETURN(const std::vector<LogKey> keys, log.Keys());
  while (anchor.head().size < head.count) {
    CertificateQuery query{
        .after_sequence = std::nullopt, .memory_name = "", .limit = kEntriesAtOnce};
    if (anchor.head().size > 0) query.after_sequence = anchor.head().size - 1;
    LETHE_ASSIGN_OR_RETURN(std::vector<CertificateRecord> missing, log.List(query));
    LETHE_CHECK(!missing.empty());  // CheckWhole has seen them
    std::vector<AnchorEntry> entries;
    for (CertificateRecord& record : missing) {
      AnchorEntry& entry = entries.emplace_back(AnchorEntry{.record = std::move(record)});
      for (const LogKey& key : keys) {
        if (key.first_sequence == entry.record.sequence + 1) entry.next_vkey = key.vkey;
      }
      // Of an erasure that is over the outbox knows nothing any more, and needs not: its keys are
      // gone.
      LETHE_RETURN_IF_ERROR(outbox.Complete(entry));
    }
    LETHE_RETURN_IF_ERROR(anchor.Append(entries, head.checkpoint));
  }
  // An anchor that was put back may have an older bound with as many certificates.
  LETHE_ASSIGN_OR_RETURN(const uint64_t next_handle, MemoryTable(&database).LargestNextHandle());
  LETHE_RETURN_IF_ERROR(anchor.RaiseHandles(next_handle));
  LETHE_ASSIGN_OR_RETURN(const CaseCounts cases, CaseTable::Count(database));
  LETHE_RETURN_IF_ERROR(anchor.RaiseCases(cases));
  return AgreeOnEnds(database, anchor);
}

// Of the two files one may have been put back from a copy without the other.
absl::Status CheckFit(const Database& database, const StoredTenant& tenant, KeyStore& keys) {
  LETHE_RETURN_IF_ERROR(CheckTaken(database, tenant, keys));
  // What no transaction has taken, no erasure can have destroyed: all of it must be alive.
  uint64_t last = tenant.next_slot - 1;
  while (last < keys.slots()) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<uint64_t> page, keys.LiveSlots(last, kMaxPageSize));
    if (page.empty() || page.back() != last + page.size()) {
      return absl::FailedPreconditionError(absl::StrCat(
          database.path(), ": keys that it has not used yet are destroyed: it is an older copy",
          kOlderAdvice));
    }
    last = page.back();
  }
  return absl::OkStatus();
}

// A keys.db that was put back from a copy has keys which were destroyed since. tenant.db knows how
// many ended and which are needed; what else is alive is destroyed again, before anything is
// served, and the KEK is replaced: then copies of them in the same file are worthless, whatever a
// search of it would find, and its count of wraps, which fell behind, begins anew. A mark in
// tenant.db, made first, has all of it repeated until it is done. Cost: O(keys); in that case a
// pass over the rows, too.
absl::Status DestroyRevived(Database& database,
                            const StoredTenant& tenant,
                            const SqliteTenantOptions& options,
                            KeyStore& keys) {
  const uint64_t taken = tenant.next_slot - 1;
  LETHE_ASSIGN_OR_RETURN(const uint64_t live, keys.CountLive(taken));
  if (live + tenant.keys_ended <= taken && !tenant.keys_suspect) return absl::OkStatus();
  const auto mark = [&database](bool suspect) -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(&database));
    LETHE_RETURN_IF_ERROR(
        database.Execute(absl::StrCat("UPDATE tenant SET keys_suspect = ", suspect ? 1 : 0)));
    return transaction.Commit();
  };
  LETHE_RETURN_IF_ERROR(mark(true));
  LETHE_ASSIGN_OR_RETURN(const std::vector<uint64_t> needed, NeededSlots(database));
  std::vector<uint64_t> revived;
  for (uint64_t last = 0; last < taken;) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<uint64_t> page, keys.LiveSlots(last, kMaxPageSize));
    for (uint64_t slot : page) {
      if (slot > taken || std::binary_search(needed.begin(), needed.end(), slot)) continue;
      revived.push_back(slot);
    }
    if (page.empty()) break;
    last = page.back();
  }
  if (!revived.empty()) {
    if (options.on_revived_keys) options.on_revived_keys(revived.size());
    LETHE_RETURN_IF_ERROR(keys.Destroy(revived).status());
  }
  LETHE_RETURN_IF_ERROR(keys.Rotate().status());
  return mark(false);
}

}  // namespace

absl::Status CheckOptions(const SqliteTenantOptions& options) {
  if (options.vault.empty()) return absl::InvalidArgumentError("options.vault: the path is empty");
  if (!options.kms) return absl::InvalidArgumentError("options.kms: required");
  return absl::OkStatus();
}

TenantVault::Place PlaceOf(const SqliteTenantOptions& options, const TenantRecord& tenant) {
  return {options.vault, tenant.uid, options.kms, tenant.log_origin, options.keys};
}

absl::StatusOr<TenantFile> OpenTenantFile(const std::string& dir,
                                          const SqliteTenantOptions& options) {
  TenantFile file;
  LETHE_ASSIGN_OR_RETURN(file.database,
                         Database::Open(FileOf(dir), Database::Mode::kOpen, kTenantIdentity));
  LETHE_ASSIGN_OR_RETURN(file.tenant, ReadTenant(*file.database));
  const TenantRecord& record = file.tenant.record;
  if (!options.expected_name.empty() && record.name != options.expected_name) {
    return absl::FailedPreconditionError(
        absl::StrCat(file.database->path(), ": is the file of another tenant, '", record.name,
                     "'; put this tenant's file in its place"));
  }
  LETHE_RETURN_IF_ERROR(CheckPages(*file.database));
  LETHE_RETURN_IF_ERROR(CertificateLog(file.database.get(), record.log_origin).CheckWhole());
  return file;
}

absl::StatusOr<std::vector<uint64_t>> NeededSlots(Database& database) {
  LETHE_ASSIGN_OR_RETURN(std::vector<uint64_t> needed,
                         Outbox(&database).Slots(std::numeric_limits<int64_t>::max()));
  needed.push_back(kTenantSlot);
  LETHE_ASSIGN_OR_RETURN(const std::vector<uint64_t> encoders, EncoderTable::Slots(database));
  needed.insert(needed.end(), encoders.begin(), encoders.end());
  LETHE_ASSIGN_OR_RETURN(Statement select,
                         database.Prepare("SELECT slot FROM tokens UNION"
                                          " SELECT slot FROM cases WHERE slot IS NOT NULL"));
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) break;
    needed.push_back(static_cast<uint64_t>(select.ColumnInt(0)));
  }
  std::sort(needed.begin(), needed.end());
  needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
  return needed;
}

absl::Status CheckTaken(const Database& database,
                        const StoredTenant& tenant,
                        const KeyStore& keys) {
  const uint64_t taken = tenant.next_slot - 1;
  if (taken <= keys.slots()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      database.path(), ": its rows have taken ", taken, " keys, but the vault has only ",
      keys.slots(), ": keys.db is an older copy or another's; put the present keys.db back"));
}

SqliteTenant::SqliteTenant(std::unique_ptr<Database> database,
                           std::unique_ptr<TenantVault> vault,
                           const StoredTenant& tenant,
                           const SecretBytes& index_secret,
                           const SqliteTenantOptions& options)
    : database_(std::move(database)),
      vault_(std::move(vault)),
      tenant_(tenant.record),
      keys_destroyed_(tenant.keys_destroyed),
      options_(options),
      memories_(database_.get()),
      tokens_(database_.get(), keys(), tenant_.uid, index_secret),
      cases_(database_.get(), keys(), tenant_.uid, index_secret),
      encoders_(database_.get(), keys(), tenant_.uid),
      outbox_(database_.get()),
      log_(database_.get(), tenant_.log_origin) {}

TenantVault::Place SqliteTenant::place() const { return PlaceOf(options_, tenant_); }

absl::Status SqliteTenant::Health() const {
  LETHE_RETURN_IF_ERROR(database_->health());
  LETHE_RETURN_IF_ERROR(behind_);
  return vault_ == nullptr ? absl::OkStatus() : vault_->Health();
}

absl::Status SqliteTenant::Ready() const {
  LETHE_CHECK(!visiting_);  // the visitor of LoadTokens must not call the store
  return Health();
}

absl::Status SqliteTenant::CheckState(Kind kind) const {
  if (kind == Kind::kClose || kind == Kind::kStartLog || tenant_.state == TenantState::kOpen) {
    return absl::OkStatus();
  }
  if (tenant_.state == TenantState::kClosed) return absl::FailedPreconditionError(kClosed);
  if (kind == Kind::kAppend) return absl::OkStatus();
  return absl::FailedPreconditionError("the tenant is closing: its rows are gone");
}

absl::Status SqliteTenant::Change(Kind kind, absl::FunctionRef<absl::Status()> body) {
  LETHE_RETURN_IF_ERROR(Ready());
  LETHE_RETURN_IF_ERROR(CheckState(kind));
  if (options_.max_bytes != 0) {
    LETHE_RETURN_IF_ERROR(database_->SetMaxBytes(kind == Kind::kGrow ? options_.max_bytes : 0));
  }
  {
    LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_.get()));
    LETHE_RETURN_IF_ERROR(body());
    LETHE_RETURN_IF_ERROR(transaction.Commit());
  }
  // What was committed stands in the log, so a checkpoint that fails here loses nothing: the next
  // commit tries again, and one that failed for an I/O error shows in Health().
  if (database_->wal_bytes() > options_.wal_checkpoint_bytes) {
    database_->CheckpointTruncate().IgnoreError();
  }
  return absl::OkStatus();
}

absl::Status SqliteTenant::ChangeWith(Kind kind,
                                      const CertificateAppend& certificate,
                                      absl::FunctionRef<absl::Status()> body) {
  AnchorEntry entry{.record = certificate.record, .next_vkey = certificate.next_vkey};
  const auto with_entry = [&]() -> absl::Status {
    LETHE_RETURN_IF_ERROR(body());
    return outbox_.Complete(entry);
  };
  LETHE_RETURN_IF_ERROR(Change(kind, with_entry));
  if (vault_ == nullptr) return absl::OkStatus();  // closing: no copy is of use any more
  const absl::Status status = vault_->anchor()->Append({&entry, 1}, certificate.checkpoint);
  return status.ok() ? status : FellBehind(status);
}

absl::Status SqliteTenant::FellBehind(const absl::Status& status) {
  behind_ = absl::UnavailableError(
      absl::StrCat("the anchor of the log could not follow it: ", status.message(),
                   "; close and open the tenant again"));
  absl::Status unknown = Indeterminate(behind_.message());
  if (!IsDiskFull(status)) return unknown;
  behind_ = MarkDiskFull(std::move(behind_));
  return MarkDiskFull(std::move(unknown));
}

absl::StatusOr<TenantCopy> SqliteTenant::CopyTo(const std::string& path) {
  LETHE_RETURN_IF_ERROR(Ready());
  if (tenant_.state != TenantState::kOpen) {
    return absl::FailedPreconditionError("the tenant is closing: its rows are gone");
  }
  TenantCopy copy{.tenant = tenant_};
  LETHE_ASSIGN_OR_RETURN(copy.log, log_.Head());
  LETHE_ASSIGN_OR_RETURN(copy.bytes, database_->CopyTo(path));
  return copy;
}

absl::StatusOr<uint64_t> SqliteTenant::UsedBytes() {
  LETHE_RETURN_IF_ERROR(Ready());
  LETHE_ASSIGN_OR_RETURN(const int64_t page, database_->QueryInt("PRAGMA page_size"));
  LETHE_ASSIGN_OR_RETURN(const int64_t pages, database_->QueryInt("PRAGMA page_count"));
  LETHE_ASSIGN_OR_RETURN(const int64_t free, database_->QueryInt("PRAGMA freelist_count"));
  return static_cast<uint64_t>(page * (pages - free));
}

absl::Status SqliteTenant::Checkpoint() {
  LETHE_RETURN_IF_ERROR(Ready());
  return database_->CheckpointTruncate();
}

// --- The tenant

absl::StatusOr<TenantRecord> SqliteTenant::GetTenant() {
  LETHE_RETURN_IF_ERROR(Ready());
  return tenant_;
}

absl::StatusOr<EraseResult> SqliteTenant::BeginClose() {
  LETHE_RETURN_IF_ERROR(Ready());
  if (tenant_.state == TenantState::kClosed) return absl::FailedPreconditionError(kClosed);
  EraseResult result;
  if (tenant_.state == TenantState::kOpen) {
    const auto body = [&]() -> absl::Status {
      LETHE_RETURN_IF_ERROR(encoders_.EndAll());
      return database_->Execute(
          "UPDATE tenant SET state = 2, index_secret = x'',"
          " closing_erased = (SELECT count(*) FROM tokens);"
          "DELETE FROM tokens; DELETE FROM tombstones; DELETE FROM memories; DELETE FROM requests;"
          "DELETE FROM outbox; DELETE FROM cases");
    };
    LETHE_RETURN_IF_ERROR(Change(Kind::kClose, body));
    tenant_.state = TenantState::kClosing;
  }
  LETHE_ASSIGN_OR_RETURN(const int64_t erased,
                         database_->QueryInt("SELECT closing_erased FROM tenant"));
  result.erased = static_cast<uint64_t>(erased);
  result.checkpoint = database_->CheckpointTruncate();
  return result;
}

absl::StatusOr<KeysDestroyed> SqliteTenant::DestroyAllKeys() {
  LETHE_RETURN_IF_ERROR(Ready());
  if (tenant_.state == TenantState::kOpen) {
    return absl::FailedPreconditionError("the tenant is open: its rows need their keys");
  }
  KeysDestroyed result;
  if (!keys_destroyed_) {
    LETHE_ASSIGN_OR_RETURN(result, TenantVault::End(place(), std::move(vault_)));
    LETHE_RETURN_IF_ERROR(Change(
        Kind::kClose, [&] { return database_->Execute("UPDATE tenant SET keys_destroyed = 1"); }));
    keys_destroyed_ = true;
  }
  LETHE_RETURN_IF_ERROR(TenantVault::RemoveFolder(place()));
  return result;
}

absl::Status SqliteTenant::FinishClose(const CertificateAppend& certificate) {
  LETHE_RETURN_IF_ERROR(Ready());
  if (tenant_.state == TenantState::kClosed) {
    const absl::StatusOr<CertificateRecord> last = log_.Get(certificate.record.id);
    if (absl::IsNotFound(last.status())) return absl::FailedPreconditionError(kClosed);
    LETHE_RETURN_IF_ERROR(last.status());
    return database_->CheckpointTruncate();
  }
  if (tenant_.state == TenantState::kOpen || !keys_destroyed_) {
    return absl::FailedPreconditionError("the tenant's keys must be destroyed first");
  }
  if (options_.max_bytes != 0) LETHE_RETURN_IF_ERROR(database_->SetMaxBytes(0));
  // Before the certificate, so that no crash leaves a closed tenant's file as it was.
  LETHE_RETURN_IF_ERROR(database_->Vacuum());
  LETHE_RETURN_IF_ERROR(database_->CheckpointTruncate());
  const auto body = [&]() -> absl::Status {
    LETHE_RETURN_IF_ERROR(log_.Append(certificate));
    return database_->Execute("UPDATE tenant SET state = 1");
  };
  LETHE_RETURN_IF_ERROR(Change(Kind::kClose, body));
  tenant_.state = TenantState::kClosed;
  return database_->CheckpointTruncate();
}

// --- Keys of erased rows

absl::StatusOr<std::vector<PendingErasure>> SqliteTenant::PendingErasures() {
  LETHE_RETURN_IF_ERROR(Ready());
  return outbox_.List();
}

absl::StatusOr<KeysDestroyed> SqliteTenant::DestroyPendingKeys(uint64_t through_sequence) {
  LETHE_RETURN_IF_ERROR(Ready());
  LETHE_RETURN_IF_ERROR(CheckState(Kind::kErase));
  LETHE_ASSIGN_OR_RETURN(const std::vector<uint64_t> slots, outbox_.Slots(through_sequence));
  KeysDestroyed result;
  LETHE_ASSIGN_OR_RETURN(result.epoch, vault_->Epoch());
  if (slots.empty()) return result;
  LETHE_ASSIGN_OR_RETURN(DestroyResult destroyed, keys()->Destroy(slots));
  result.destroyed = destroyed.destroyed;
  result.already_destroyed = destroyed.already_destroyed;
  result.evidence = std::move(destroyed.evidence);
  result.bytes_read = destroyed.bytes_read;
  result.rewritten = destroyed.rewritten;
  return result;
}

absl::Status SqliteTenant::AppendShredded(const CertificateAppend& certificate,
                                          uint64_t through_sequence) {
  return ChangeWith(Kind::kErase, certificate, [&]() -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(const std::vector<uint64_t> slots, outbox_.Slots(through_sequence));
    for (uint64_t slot : slots) {
      LETHE_ASSIGN_OR_RETURN(const SlotState state, keys()->State(slot));
      if (state != SlotState::kDestroyed) {
        return absl::FailedPreconditionError(
            "through_sequence: keys up to it are not destroyed yet");
      }
    }
    LETHE_ASSIGN_OR_RETURN(const uint64_t removed, outbox_.Remove(through_sequence));
    if (removed == 0) {
      return absl::FailedPreconditionError("through_sequence: nothing is pending up to it");
    }
    {
      LETHE_ASSIGN_OR_RETURN(Statement count,
                             database_->Prepare("UPDATE tenant SET keys_ended = keys_ended + ?1"));
      LETHE_RETURN_IF_ERROR(count.Int(1, ClampToInt64(slots.size())).Run());
    }
    return log_.Append(certificate);
  });
}

absl::StatusOr<KeysRewrapped> SqliteTenant::RotateKeys() {
  LETHE_ASSIGN_OR_RETURN(const KeysRewrapped finished, FinishRotation());
  LETHE_ASSIGN_OR_RETURN(const RotationResult rotated, keys()->Rotate());
  KeysRewrapped result{.keys = rotated.rewrapped, .evidence = rotated.evidence};
  LETHE_ASSIGN_OR_RETURN(result.epoch, vault_->Epoch());
  return result;
}

absl::StatusOr<KeysRewrapped> SqliteTenant::FinishRotation() {
  LETHE_RETURN_IF_ERROR(Ready());
  LETHE_RETURN_IF_ERROR(CheckState(Kind::kErase));
  LETHE_ASSIGN_OR_RETURN(const RotationResult rotated, keys()->FinishRotation());
  KeysRewrapped result{.keys = rotated.rewrapped, .evidence = rotated.evidence};
  LETHE_ASSIGN_OR_RETURN(result.epoch, vault_->Epoch());
  return result;
}

absl::StatusOr<std::vector<uint32_t>> SqliteTenant::EndedEpochs() {
  LETHE_RETURN_IF_ERROR(Ready());
  LETHE_RETURN_IF_ERROR(CheckState(Kind::kErase));
  return keys()->EndedEpochs();
}

absl::Status SqliteTenant::ForgetEndedEpochs(uint32_t through) {
  LETHE_RETURN_IF_ERROR(Ready());
  LETHE_RETURN_IF_ERROR(CheckState(Kind::kErase));
  return keys()->ForgetEndedEpochs(through);
}

// --- Making and opening

absl::StatusOr<std::unique_ptr<TenantStore>> CreateTenantStore(const std::string& dir,
                                                               const TenantRecord& tenant,
                                                               const SqliteTenantOptions& options) {
  LETHE_RETURN_IF_ERROR(CheckOptions(options));
  LETHE_RETURN_IF_ERROR(CheckLength("tenant.name", tenant.name, 1, kMaxNameBytes));
  LETHE_RETURN_IF_ERROR(CheckHex("tenant.uid", tenant.uid, 32));
  LETHE_RETURN_IF_ERROR(CheckLength("tenant.log_origin", tenant.log_origin, 1, 1024));
  if (tenant.state != TenantState::kOpen) {
    return absl::InvalidArgumentError("tenant.state: must be open");
  }
  const TenantVault::Place place = PlaceOf(options, tenant);
  LETHE_ASSIGN_OR_RETURN(std::unique_ptr<TenantVault> vault, TenantVault::Create(place));
  const auto build = [&]() -> absl::StatusOr<std::unique_ptr<TenantStore>> {
    LETHE_ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                           Database::Open(FileOf(dir), Database::Mode::kCreate, kTenantIdentity));
    LETHE_RETURN_IF_ERROR(CreateSchema(*database, tenant, *vault->keys()));
    LETHE_RETURN_IF_ERROR(SyncFolder(dir));  // SQLite passes over an error of its own sync of it
    LETHE_ASSIGN_OR_RETURN(const StoredTenant stored, ReadTenant(*database));
    LETHE_ASSIGN_OR_RETURN(const SecretBytes secret,
                           OpenIndexSecret(*database, stored, *vault->keys()));
    return std::make_unique<SqliteTenant>(std::move(database), std::move(vault), stored, secret,
                                          options);
  };
  absl::StatusOr<std::unique_ptr<TenantStore>> store = build();
  if (!store.ok() && TenantVault::End(place, std::move(vault)).ok()) {
    TenantVault::RemoveFolder(place).IgnoreError();
  }
  return store;
}

absl::StatusOr<std::unique_ptr<TenantStore>> OpenTenantStore(const std::string& dir,
                                                             const SqliteTenantOptions& options) {
  LETHE_RETURN_IF_ERROR(CheckOptions(options));
  LETHE_ASSIGN_OR_RETURN(TenantFile file, OpenTenantFile(dir, options));
  const StoredTenant& tenant = file.tenant;
  Database& database = *file.database;
  std::unique_ptr<TenantVault> vault;
  SecretBytes secret(kIndexSecretBytes);
  if (tenant.record.state == TenantState::kOpen) {
    LETHE_ASSIGN_OR_RETURN(vault, TenantVault::Open(PlaceOf(options, tenant.record)));
    LETHE_RETURN_IF_ERROR(CheckFit(database, tenant, *vault->keys()));
    LETHE_ASSIGN_OR_RETURN(secret, OpenIndexSecret(database, tenant, *vault->keys()));
    LETHE_RETURN_IF_ERROR(CheckAnchor(database, tenant, *vault->anchor()));
    LETHE_RETURN_IF_ERROR(DestroyRevived(database, tenant, options, *vault->keys()));
    LETHE_RETURN_IF_ERROR(BringAnchorUp(database, tenant, *vault->anchor()));
  }
  return std::make_unique<SqliteTenant>(std::move(file.database), std::move(vault), tenant, secret,
                                        options);
}

}  // namespace lethe::store
