#include "store/tenant_restore.h"

#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "store/anchor.h"
#include "store/case_table.h"
#include "store/certificate_log.h"
#include "store/encoder_table.h"
#include "store/memory_table.h"
#include "store/outbox.h"
#include "store/schema.h"
#include "store/sqlite.h"
#include "store/sqlite_tenant.h"
#include "store/tenant_vault.h"
#include "store/token_table.h"
#include "store/vault/key_store.h"

namespace lethe::store {
namespace {

constexpr absl::string_view kAnotherCopy = "; the copy is damaged, take another";

absl::Status CheckOpen(const Database& database, const StoredTenant& tenant) {
  if (tenant.record.state == TenantState::kOpen) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(database.path(),
                   ": is of a tenant that was deleted: it holds no rows, and there"
                   " is nothing to restore"));
}

// Every index against its table, which an opening leaves to those who read.
absl::Status CheckIndexes(Database& database) {
  LETHE_ASSIGN_OR_RETURN(const std::string found, database.QueryText("PRAGMA integrity_check(1)"));
  if (found == "ok") return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(database.path(), ": ", found, kAnotherCopy));
}

absl::Status CheckVaultIsThere(const TenantVault::Place& place) {
  struct stat info {};
  if (::lstat(place.folder().c_str(), &info) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      place.folder(),
      ": is not there. If the tenant was deleted, its keys are destroyed, and nobody can bring it"
      " back. Otherwise give the server the right vault, or put this folder back from its copy"));
}

class Restorer {
 public:
  Restorer(TenantFile file,
           std::unique_ptr<TenantVault> vault,
           const SecretBytes& secret,
           int64_t held_back_until_micros)
      : held_back_until_(held_back_until_micros),
        file_(std::move(file)),
        vault_(std::move(vault)),
        keys_(*vault_->keys()),
        anchor_(*vault_->anchor()),
        log_(file_.database.get(), file_.tenant.record.log_origin),
        outbox_(file_.database.get()),
        memories_(file_.database.get()),
        tokens_(file_.database.get(), &keys_, file_.tenant.record.uid, secret),
        cases_(file_.database.get(), &keys_, file_.tenant.record.uid, secret),
        encoders_(file_.database.get(), &keys_, file_.tenant.record.uid) {}

  absl::StatusOr<RestoreReport> Run(const RestoreCertifier& certify);

 private:
  // What is known of a slot.
  enum Known : uint8_t {
    kLive = 1,    // its key is there
    kErased = 2,  // an erasure that came after the copy had to destroy it, or still has to
    kNeeded = 4,  // by a row that stays, by a pending erasure, or by the tenant
  };

  absl::Status CheckLength(const LogHead& copy) const;
  absl::Status LookAtKeys();
  // That the copy's log begins the anchor's, and what comes after it.
  absl::Status PutBack(const LogHead& copy);
  absl::Status EraseAgain(const AnchorEntry& entry);
  absl::Status DeleteAgain(const StoredMemory& memory);
  // Those of the copy of which the anchor knows how they ended, or whose keys are gone.
  absl::Status EndCases();
  // Those whose keys are gone, and with them their memories.
  absl::Status EndEncoders();
  absl::Status CheckRows();
  absl::StatusOr<CertificateAppend> Certify(const RestoreCertifier& certify, AnchorEntry& entry);
  // From now on the keys are taken that are, and those that nothing needs have ended.
  absl::Status SetKeys();
  absl::Status DestroyLostKeys();

  const int64_t held_back_until_;  // open requests
  TenantFile file_;
  std::unique_ptr<TenantVault> vault_;
  KeyStore& keys_;
  Anchor& anchor_;
  CertificateLog log_;
  Outbox outbox_;
  MemoryTable memories_;
  TokenTable tokens_;
  CaseTable cases_;
  EncoderTable encoders_;
  std::vector<uint8_t> slots_;  // Known of each, by its number
  RestoreReport report_;
};

absl::Status Restorer::CheckLength(const LogHead& copy) const {
  const std::string& path = file_.database->path();
  if (copy.checkpoint.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": its log was not begun when it was made; take a later copy"));
  }
  const uint64_t size = anchor_.head().size;
  if (copy.count <= size) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      path, ": its log has ", copy.count, " certificates, and ", anchor_.path(), " only ", size,
      ": it is no older copy, and the server starts with it as it is"));
}

absl::Status Restorer::LookAtKeys() {
  slots_.assign(keys_.slots() + 1, 0);
  for (uint64_t last = 0;;) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<uint64_t> page, keys_.LiveSlots(last, kMaxPageSize));
    if (page.empty()) return absl::OkStatus();
    for (const uint64_t slot : page) slots_[slot] = kLive;
    last = page.back();
  }
}

absl::Status Restorer::PutBack(const LogHead& copy) {
  const AnchorHead& anchored = anchor_.head();
  // Those that came to their end after the copy.
  if (anchored.pending_from > 0) {
    LETHE_RETURN_IF_ERROR(outbox_.Remove(anchored.pending_from - 1).status());
  }
  const auto put_back = [&](AnchorEntry& entry) -> absl::Status {
    const CertificateRecord& record = entry.record;
    if (record.sequence >= copy.count) {
      LETHE_RETURN_IF_ERROR(log_.PutBack(record, entry.next_vkey, anchored.checkpoint));
      return EraseAgain(entry);
    }
    // A leaf names the one before it, so one leaf stands for all that are before it.
    if (record.leaf_hash == copy.leaf_hash) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(file_.database->path(), ": its log is another than the one that was written (",
                     anchor_.path(), "): certificate ", record.sequence,
                     " differs; restore a copy of the log that was written"));
  };
  LETHE_RETURN_IF_ERROR(anchor_.Visit(copy.count == 0 ? 0 : copy.count - 1, put_back));
  report_.reapplied = anchored.size - copy.count;
  const absl::Status whole = log_.CheckWhole();
  if (whole.ok()) return whole;
  return absl::DataLossError(absl::StrCat(anchor_.path(),
                                          ": its certificates do not continue those of the copy (",
                                          whole.message(), ")", kAnchorAdvice));
}

absl::Status Restorer::EraseAgain(const AnchorEntry& entry) {
  for (const uint64_t slot : entry.slots) {
    if (slot == 0 || slot >= slots_.size()) {
      return absl::FailedPreconditionError(
          absl::StrCat(anchor_.path(), ": knows key ", slot, ", but the vault has only ",
                       keys_.slots(), ": keys.db is an older copy; put the present keys.db back"));
    }
    slots_[slot] |= kErased;
  }
  if (entry.record.sequence >= anchor_.head().pending_from) {
    LETHE_RETURN_IF_ERROR(outbox_.Add(entry.record.sequence, entry.slots, entry.erased));
  }
  if (entry.erased.memory_uid.empty()) return absl::OkStatus();
  const absl::StatusOr<StoredMemory> memory = memories_.Find("uid", entry.erased.memory_uid);
  if (absl::IsNotFound(memory.status())) return absl::OkStatus();  // it came after the copy
  LETHE_RETURN_IF_ERROR(memory.status());
  if (!entry.erased.whole_memory) {
    LETHE_ASSIGN_OR_RETURN(const uint64_t erased,
                           tokens_.EraseAgain(*memory, entry.erased.handles));
    report_.removed += erased;
    return absl::OkStatus();
  }
  return DeleteAgain(*memory);
}

absl::Status Restorer::DeleteAgain(const StoredMemory& memory) {
  LETHE_ASSIGN_OR_RETURN(const TokenTable::ErasedMemory erased, tokens_.EraseMemory(memory));
  LETHE_RETURN_IF_ERROR(encoders_.End(memory));
  report_.removed += erased.rows;
  ++report_.memories_removed;
  return memories_.Remove(memory);
}

// The deletion of a memory without tokens has no certificate, so that the log does not know of it.
absl::Status Restorer::EndEncoders() {
  LETHE_ASSIGN_OR_RETURN(const std::vector<StoredMemory> memories,
                         encoders_.RemoveUnder([this](uint64_t slot) {
                           return slot >= slots_.size() || slots_[slot] != kLive;
                         }));
  for (const StoredMemory& memory : memories) LETHE_RETURN_IF_ERROR(DeleteAgain(memory));
  return absl::OkStatus();
}

absl::Status Restorer::EndCases() {
  Database& database = *file_.database;
  CaseCounts known;
  LETHE_ASSIGN_OR_RETURN(const std::vector<CaseRecord> ended, anchor_.Ended());
  for (const CaseRecord& record : ended) {
    LETHE_ASSIGN_OR_RETURN(const std::optional<CaseState> before,
                           CaseTable::PutEnded(database, record));
    if (!before.has_value() || HasEnded(*before)) continue;
    ++(*before == CaseState::kHeld ? known.holds : known.requests);
  }
  LETHE_ASSIGN_OR_RETURN(report_.cases_ended, cases_.EndLost([this](uint64_t slot) {
    return slot >= slots_.size() || slots_[slot] != kLive;
  }));
  report_.cases_ended.requests += known.requests;
  report_.cases_ended.holds += known.holds;
  LETHE_ASSIGN_OR_RETURN(report_.cases, CaseTable::Count(database));
  const CaseCounts& ever = anchor_.head().cases;
  report_.cases_lost = {.requests = ever.requests - std::min(ever.requests, report_.cases.requests),
                        .holds = ever.holds - std::min(ever.holds, report_.cases.holds)};
  // What lost holds kept is kept by nobody until somebody places them again. Not only where the
  // counts say so: those of a restore that is repeated do not, and its copy has the old times.
  return CaseTable::HoldBack(database, held_back_until_);
}

absl::Status Restorer::CheckRows() {
  std::string after;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<StoredMemory> page,
                           memories_.List(after, kMaxPageSize));
    if (page.empty()) return absl::OkStatus();
    for (const StoredMemory& memory : page) {
      absl::Status status = tokens_.Load(memory, [](TokenRow&) { return absl::OkStatus(); });
      if (status.ok()) {
        status = encoders_.Get(memory).status();
        if (absl::IsNotFound(status)) status = absl::OkStatus();
      }
      if (absl::IsDataLoss(status)) {
        return absl::DataLossError(absl::StrCat(status.message(), kAnotherCopy));
      }
      LETHE_RETURN_IF_ERROR(status);
    }
    after = page.back().record.name;
  }
}

absl::StatusOr<CertificateAppend> Restorer::Certify(const RestoreCertifier& certify,
                                                    AnchorEntry& entry) {
  LETHE_ASSIGN_OR_RETURN(const LogHead head, log_.Head());
  LETHE_ASSIGN_OR_RETURN(const std::vector<LogKey> keys, log_.Keys());
  LETHE_ASSIGN_OR_RETURN(CertificateAppend certificate, certify(report_, head, keys));
  LETHE_RETURN_IF_ERROR(log_.Append(certificate));
  entry.record = certificate.record;
  entry.next_vkey = certificate.next_vkey;
  LETHE_RETURN_IF_ERROR(outbox_.Complete(entry));
  return certificate;
}

absl::Status Restorer::SetKeys() {
  Database& database = *file_.database;
  LETHE_ASSIGN_OR_RETURN(const std::vector<uint64_t> needed, NeededSlots(database));
  if (needed.back() >= slots_.size()) {
    return absl::DataLossError(absl::StrCat(
        database.path(), ": a pending erasure names a key that never was", kAnotherCopy));
  }
  for (const uint64_t slot : needed) slots_[slot] |= kNeeded;
  LETHE_RETURN_IF_ERROR(SetNextSlot(database, keys_.slots() + 1));
  return SetKeysEnded(database, keys_.slots() - needed.size());
}

// Those of rows that came after the copy, and what was destroyed before it and is alive in a
// keys.db that was put back.
absl::Status Restorer::DestroyLostKeys() {
  std::vector<uint64_t> lost;
  for (uint64_t slot = 1; slot < slots_.size(); ++slot) {
    // Dead ones too: a restore that is repeated looks for what the first one could not prove.
    if ((slots_[slot] & kNeeded) == 0) lost.push_back(slot);
  }
  if (lost.empty()) return absl::OkStatus();
  LETHE_ASSIGN_OR_RETURN(const DestroyResult destroyed, keys_.Destroy(lost));
  report_.keys_destroyed = destroyed.destroyed;
  // Copies that cannot be removed are worthless without the KEK.
  if (absl::IsDataLoss(destroyed.evidence)) return keys_.Rotate().status();
  return destroyed.evidence;
}

absl::StatusOr<RestoreReport> Restorer::Run(const RestoreCertifier& certify) {
  Database& database = *file_.database;
  report_.tenant = file_.tenant.record;
  LETHE_ASSIGN_OR_RETURN(const LogHead copy, log_.Head());
  report_.copy_size = copy.count;
  LETHE_RETURN_IF_ERROR(CheckLength(copy));
  LETHE_RETURN_IF_ERROR(LookAtKeys());
  AnchorEntry entry;
  CertificateAppend certificate;
  {
    LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(&database));
    LETHE_RETURN_IF_ERROR(PutBack(copy));
    LETHE_ASSIGN_OR_RETURN(report_.unreadable, tokens_.RemoveUnder([this](uint64_t slot) {
      return slot >= slots_.size() || slots_[slot] != kLive;
    }));
    LETHE_RETURN_IF_ERROR(EndCases());
    LETHE_RETURN_IF_ERROR(EndEncoders());
    LETHE_RETURN_IF_ERROR(CheckRows());
    LETHE_RETURN_IF_ERROR(memories_.RaiseNextHandles(anchor_.head().next_handle));
    LETHE_RETURN_IF_ERROR(SetKeys());
    LETHE_ASSIGN_OR_RETURN(certificate, Certify(certify, entry));
    LETHE_RETURN_IF_ERROR(transaction.Commit());
  }
  LETHE_RETURN_IF_ERROR(database.CheckpointTruncate());
  LETHE_RETURN_IF_ERROR(anchor_.Append({&entry, 1}, certificate.checkpoint));
  LETHE_RETURN_IF_ERROR(DestroyLostKeys());
  return report_;
}

}  // namespace

absl::StatusOr<RestoreReport> RestoreTenantStore(const std::string& dir,
                                                 const SqliteTenantOptions& options,
                                                 const RestoreCertifier& certify,
                                                 int64_t held_back_until_micros) {
  LETHE_RETURN_IF_ERROR(CheckOptions(options));
  if (!certify) return absl::InvalidArgumentError("certify: required");
  LETHE_ASSIGN_OR_RETURN(TenantFile file, OpenTenantFile(dir, options));
  Database& database = *file.database;
  LETHE_RETURN_IF_ERROR(CheckOpen(database, file.tenant));
  LETHE_RETURN_IF_ERROR(CheckIndexes(database));
  const TenantVault::Place place = PlaceOf(options, file.tenant.record);
  LETHE_RETURN_IF_ERROR(CheckVaultIsThere(place));
  LETHE_ASSIGN_OR_RETURN(std::unique_ptr<TenantVault> vault, TenantVault::Open(place));
  LETHE_RETURN_IF_ERROR(CheckTaken(database, file.tenant, *vault->keys()));
  LETHE_ASSIGN_OR_RETURN(const SecretBytes secret,
                         OpenIndexSecret(database, file.tenant, *vault->keys()));
  return Restorer(std::move(file), std::move(vault), secret, held_back_until_micros).Run(certify);
}

absl::Status FinishRestore(const SqliteTenantOptions& options, const RestoreReport& report) {
  LETHE_ASSIGN_OR_RETURN(const std::unique_ptr<Anchor> anchor,
                         Anchor::Open(AnchorFileOf(PlaceOf(options, report.tenant).folder()),
                                      report.tenant.uid, report.tenant.log_origin));
  return anchor->SetCases(report.cases);
}

}  // namespace lethe::store
