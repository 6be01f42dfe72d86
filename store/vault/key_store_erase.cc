// Destroying keys, changing the epoch of the KEK, and the evidence for both.
#include <fcntl.h>
#include <openssl/crypto.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "store/validation.h"
#include "store/vault/key_store.h"

namespace lethe::store {
namespace {

constexpr size_t kProveBatch = 1000;

}  // namespace

absl::StatusOr<DestroyResult> KeyStore::Destroy(std::span<const uint64_t> slots) {
  const std::set<uint64_t> distinct(slots.begin(), slots.end());
  for (uint64_t slot : distinct) cache_.Evict(slot);
  LETHE_RETURN_IF_ERROR(Health());
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] == 0 || slots[i] > slots_) {
      return absl::NotFoundError(
          absl::StrCat("slots[", i, "]: key slot ", slots[i], " was never allocated"));
    }
  }
  DestroyResult result;
  ResidueScanner scanner;
  {
    LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
    LETHE_ASSIGN_OR_RETURN(Statement update,
                           db_->Prepare("UPDATE slots SET body = zeroblob(96) WHERE slot = ?1"));
    for (uint64_t slot : distinct) {
      scanner.AddSlot(slot);
      LETHE_ASSIGN_OR_RETURN(std::string body, ReadBody(slot));
      if (IsDestroyed(body)) {
        ++result.already_destroyed;
        continue;
      }
      // Whatever stands there, be it damaged, is what must be gone.
      if (body.size() == kSlotBytes) {
        scanner.AddWrappedKey(absl::string_view(body).substr(kWrappedOffset, kWrappedKeyBytes));
      }
      OPENSSL_cleanse(body.data(), body.size());
      LETHE_RETURN_IF_ERROR(update.Int(1, ClampToInt64(slot)).Run());
      LETHE_CHECK(db_->Changes() == 1);
      ++result.destroyed;
    }
    if (result.destroyed > 0) LETHE_RETURN_IF_ERROR(transaction.Commit());
  }
  // From here on the keys are destroyed; what fails now weakens the evidence alone.
  result.evidence = [&]() -> absl::Status {
    LETHE_RETURN_IF_ERROR(Prove(scanner, result.bytes_read, result.rewritten));
    // SQLite must not answer from its own cache.
    LETHE_RETURN_IF_ERROR(db_->Execute("PRAGMA shrink_memory"));
    for (uint64_t slot : distinct) {
      LETHE_ASSIGN_OR_RETURN(const std::string body, ReadBody(slot));
      if (!IsDestroyed(body)) {
        return absl::DataLossError(
            absl::StrCat(path_, ": key slot ", slot, " does not read as zeros"));
      }
    }
    return absl::OkStatus();
  }();
  return result;
}

absl::StatusOr<Residue> KeyStore::Search(ResidueScanner& scanner) {
  LETHE_ASSIGN_OR_RETURN(Residue residue, scanner.Scan(raw_->get()));
  // No locks are lost by closing this one: SQLite locks the database file alone.
  const std::string log = absl::StrCat(path_, "-wal");
  const int file = ::open(log.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) return residue;
  if (file < 0) {
    return absl::UnavailableError(
        absl::StrCat(log, ": cannot read it back: ", std::generic_category().message(errno)));
  }
  const absl::StatusOr<Residue> in_log = scanner.Scan(file);
  ::close(file);
  if (!in_log.ok()) return in_log.status();
  if (in_log->bytes_read != 0) {
    return absl::UnavailableError(absl::StrCat(log, ": is not empty after its checkpoint"));
  }
  return residue;
}

absl::Status KeyStore::Prove(ResidueScanner& scanner, uint64_t& bytes_read, bool& rewritten) {
  LETHE_RETURN_IF_ERROR(db_->CheckpointTruncate());
  LETHE_ASSIGN_OR_RETURN(Residue residue, Search(scanner));
  if (residue.hits > 0) {
    rewritten = true;
    if (absl::Status status = db_->Execute("VACUUM"); !status.ok()) {
      // Its own commit may be in the log or not; only a new connection can tell.
      broken_ = absl::UnavailableError(
          absl::StrCat(path_, ": writing the file anew failed; close and open it again"));
      return status;
    }
    LETHE_RETURN_IF_ERROR(db_->CheckpointTruncate());
    LETHE_ASSIGN_OR_RETURN(residue, Search(scanner));
  }
  bytes_read = residue.bytes_read;
  if (residue.hits == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path_, ": ", residue.hits,
                                          " copies of destroyed or replaced wrapped keys are"
                                          " in the file, the first at byte ",
                                          residue.first_offset,
                                          "; rotate the KEK, which makes them worthless"));
}

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
    LETHE_ASSIGN_OR_RETURN(std::vector<std::string> wrapped, WrapKeys(epoch, numbers, keys));
    for (size_t i = 0; i < slots.size(); ++i) {
      slots[i].epoch = epoch;
      slots[i].wrapped = std::move(wrapped[i]);
    }
    LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
    LETHE_RETURN_IF_ERROR(CountWraps(epoch, slots.size()));
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
  }
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
