// Changing the epoch of the KEK, and the end of epochs.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "store/vault/key_store.h"

namespace lethe::store {
namespace {

constexpr size_t kProveBatch = 1000;

}  // namespace

absl::StatusOr<RotationResult> KeyStore::Rotate() {
  LETHE_RETURN_IF_ERROR(Health());
  LETHE_RETURN_IF_ERROR(kms_->Rotate().status());
  return FinishRotation();
}

absl::StatusOr<uint64_t> KeyStore::RewrapBatch(uint32_t epoch, std::span<const StoredSlot> batch) {
  std::map<uint32_t, std::vector<KeySlot>> by_epoch;
  for (const StoredSlot& stored : batch) {
    if (IsDestroyed(stored.body)) continue;
    LETHE_ASSIGN_OR_RETURN(KeySlot slot, DecodeSlot(tenant_uid_, stored.slot, stored.body));
    if (slot.epoch != epoch) by_epoch[slot.epoch].push_back(std::move(slot));
  }
  uint64_t rewrapped = 0;
  for (auto& [old_epoch, slots] : by_epoch) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<SecretBytes> keys, UnwrapKeys(slots));
    std::vector<uint64_t> numbers;
    for (const KeySlot& slot : slots) numbers.push_back(slot.slot);
    LETHE_RETURN_IF_ERROR(CountWraps(epoch, slots.size()));
    LETHE_ASSIGN_OR_RETURN(std::vector<std::string> wrapped, WrapKeys(epoch, numbers, keys));
    for (size_t i = 0; i < slots.size(); ++i) {
      slots[i].epoch = epoch;
      slots[i].wrapped = std::move(wrapped[i]);
    }
    LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
    LETHE_RETURN_IF_ERROR(WriteBodies(slots));
    LETHE_RETURN_IF_ERROR(transaction.Commit());
    rewrapped += slots.size();
  }
  return rewrapped;
}

absl::Status KeyStore::ProveUnder(uint32_t epoch) {
  LETHE_RETURN_IF_ERROR(db_->Execute("PRAGMA shrink_memory"));
  uint64_t after = 0;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<StoredSlot> batch, ReadBodies(after, kProveBatch));
    if (batch.empty()) return absl::OkStatus();
    after = batch.back().slot;
    std::vector<KeySlot> live;
    for (const StoredSlot& stored : batch) {
      if (IsDestroyed(stored.body)) continue;
      LETHE_ASSIGN_OR_RETURN(KeySlot slot, DecodeSlot(tenant_uid_, stored.slot, stored.body));
      if (slot.epoch != epoch) {
        return absl::InternalError(absl::StrCat(path_, ": key slot ", slot.slot,
                                                " is still wrapped under epoch ", slot.epoch));
      }
      live.push_back(std::move(slot));
    }
    if (!live.empty()) LETHE_RETURN_IF_ERROR(UnwrapKeys(live).status());
  }
}

absl::Status KeyStore::MarkEnding(std::span<const uint32_t> epochs) {
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
  LETHE_ASSIGN_OR_RETURN(Statement upsert,
                         db_->Prepare("INSERT INTO epochs (epoch, wraps, ending) VALUES (?1, 0, 1)"
                                      " ON CONFLICT (epoch) DO UPDATE SET ending = 1"));
  for (uint32_t epoch : epochs) LETHE_RETURN_IF_ERROR(upsert.Int(1, epoch).Run());
  return transaction.Commit();
}

absl::StatusOr<std::vector<uint32_t>> KeyStore::EndedEpochs() {
  LETHE_RETURN_IF_ERROR(Health());
  LETHE_ASSIGN_OR_RETURN(const std::vector<uint32_t> existing, kms_->Epochs());
  LETHE_ASSIGN_OR_RETURN(Statement select,
                         db_->Prepare("SELECT epoch FROM epochs WHERE ending = 1 ORDER BY epoch"));
  std::vector<uint32_t> ended;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return ended;
    const uint32_t epoch = static_cast<uint32_t>(select.ColumnInt(0));
    // A mark of one that is there: the KMS was not asked, or has not done it.
    if (!std::binary_search(existing.begin(), existing.end(), epoch)) ended.push_back(epoch);
  }
}

absl::Status KeyStore::ForgetEndedEpochs(uint32_t through) {
  LETHE_ASSIGN_OR_RETURN(std::vector<uint32_t> ended, EndedEpochs());
  ended.erase(std::upper_bound(ended.begin(), ended.end(), through), ended.end());
  if (ended.empty()) return absl::OkStatus();
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
  LETHE_ASSIGN_OR_RETURN(Statement remove, db_->Prepare("DELETE FROM epochs WHERE epoch = ?1"));
  for (uint32_t epoch : ended) LETHE_RETURN_IF_ERROR(remove.Int(1, epoch).Run());
  return transaction.Commit();
}

absl::Status KeyStore::DestroyAll() {
  cache_.Clear();
  broken_ = absl::FailedPreconditionError(
      absl::StrCat(path_, ": all keys of ", kms_->Location(), " were ordered to be destroyed"));
  return kms_->DestroyAll();
}

absl::StatusOr<RotationResult> KeyStore::FinishRotation() {
  LETHE_RETURN_IF_ERROR(Health());
  LETHE_ASSIGN_OR_RETURN(std::vector<uint32_t> epochs, kms_->Epochs());
  if (epochs.empty()) return absl::FailedPreconditionError("KMS: has no KEK");
  const uint32_t current = epochs.back();
  epochs.pop_back();
  RotationResult result;
  if (epochs.empty()) return result;

  for (uint64_t after = 0;;) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<StoredSlot> batch,
                           ReadBodies(after, options_.rewrap_batch));
    if (batch.empty()) break;
    after = batch.back().slot;
    LETHE_ASSIGN_OR_RETURN(const uint64_t rewrapped, RewrapBatch(current, batch));
    result.rewrapped += rewrapped;
    // So that the log does not grow to the size of the file. Nothing is lost by one that fails
    // here.
    if (db_->wal_bytes() > options_.wal_checkpoint_bytes) db_->CheckpointTruncate().IgnoreError();
  }
  // Before the KMS is asked, or a crash right after it would leave nobody who knows.
  LETHE_RETURN_IF_ERROR(MarkEnding(epochs));
  ResidueScanner scanner;
  for (uint32_t epoch : epochs) scanner.AddEpoch(epoch);
  uint64_t bytes_read = 0;
  bool rewritten = false;
  result.evidence = Prove(scanner, bytes_read, rewritten);
  // A copy that stayed is one more reason to destroy the epoch that it needs; a file that cannot be
  // read is none.
  if (!result.evidence.ok() && !absl::IsDataLoss(result.evidence)) return result.evidence;
  LETHE_RETURN_IF_ERROR(Health());
  LETHE_RETURN_IF_ERROR(ProveUnder(current));
  for (uint32_t epoch : epochs) {
    LETHE_RETURN_IF_ERROR(kms_->Destroy(epoch));
    result.destroyed_epochs.push_back(epoch);
  }
  return result;
}

}  // namespace lethe::store
