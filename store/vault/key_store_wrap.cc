// Making data keys, wrapping and unwrapping them, and lending them out.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "store/validation.h"
#include "store/vault/key_store.h"

namespace lethe::store {

absl::Status KeyStore::CountWraps(uint32_t epoch, uint64_t count) {
  uint64_t& counted = counted_wraps_[epoch];
  if (counted < count) {
    const uint64_t missing = count - counted;
    LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
    uint64_t before = 0;
    {
      LETHE_ASSIGN_OR_RETURN(Statement select,
                             db_->Prepare("SELECT wraps FROM epochs WHERE epoch = ?1"));
      LETHE_ASSIGN_OR_RETURN(const bool row, select.Int(1, epoch).Step());
      if (row) before = static_cast<uint64_t>(select.ColumnInt(0));
    }
    const uint64_t most = options_.max_wraps_per_epoch;
    if (before > most || missing > most - before) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path_, ": epoch ", epoch, " of the KEK has wrapped up to ", before,
                       " keys, at most ", most, "; rotate the KEK"));
    }
    const uint64_t block = std::min(std::max(missing, options_.wrap_block), most - before);
    {
      LETHE_ASSIGN_OR_RETURN(
          Statement upsert,
          db_->Prepare("INSERT INTO epochs (epoch, wraps) VALUES (?1, ?2)"
                       " ON CONFLICT (epoch) DO UPDATE SET wraps = excluded.wraps"));
      LETHE_RETURN_IF_ERROR(
          upsert.Int(1, epoch).Int(2, static_cast<int64_t>(before + block)).Run());
    }
    LETHE_RETURN_IF_ERROR(transaction.Commit());
    counted += block;
  }
  counted -= count;
  return absl::OkStatus();
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
  slots.reserve(count);
  for (uint64_t i = 0; i < count; ++i) slots.push_back(first + i);
  std::vector<SecretBytes> keys = SecretBytes::RandomSeries(count, kDataKeyBytes);
  LETHE_RETURN_IF_ERROR(CountWraps(epoch, count));
  LETHE_ASSIGN_OR_RETURN(const std::vector<std::string> wrapped, WrapKeys(epoch, slots, keys));
  LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
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
  // The keys stand in the log: a checkpoint that fails loses none of them. The next commit tries
  // again, and an I/O error shows in Health().
  if (db_->wal_bytes() > options_.wal_checkpoint_bytes) db_->CheckpointTruncate().IgnoreError();
  return first;
}

absl::Status KeyStore::Prefetch(std::span<const uint64_t> slots) {
  LETHE_RETURN_IF_ERROR(Health());
  std::vector<uint64_t> missing;
  for (uint64_t slot : slots) {
    if (slot != 0 && slot <= slots_ && !cache_.Contains(slot)) missing.push_back(slot);
  }
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  if (missing.size() > cache_.limit()) missing.resize(cache_.limit());
  if (missing.empty()) return absl::OkStatus();
  LETHE_ASSIGN_OR_RETURN(const std::vector<StoredSlot> bodies, ReadBodiesOf(missing));
  std::map<uint32_t, std::vector<KeySlot>> by_epoch;
  for (const StoredSlot& stored : bodies) {
    absl::StatusOr<KeySlot> slot = DecodeSlot(tenant_uid_, stored.slot, stored.body);
    if (slot.ok()) by_epoch[slot->epoch].push_back(*std::move(slot));
  }
  for (const auto& [epoch, found] : by_epoch) {
    absl::StatusOr<std::vector<SecretBytes>> keys = UnwrapKeys(found);
    if (absl::IsDataLoss(keys.status())) continue;  // WithKey says which
    LETHE_RETURN_IF_ERROR(keys.status());
    for (size_t i = 0; i < found.size(); ++i) {
      // WithKey brings the count of seals up to its caller's.
      cache_.Put(found[i].slot, SealingKey(std::move((*keys)[i]), 0, options_.max_seals_per_key));
    }
  }
  return absl::OkStatus();
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
