#include "store/row_keys.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "store/schema.h"
#include "store/vault/sealing.h"

namespace lethe::store {
namespace {

// A block costs a commit. The largest is half of what the vault caches, so that its keys are still
// there when rows take them.
constexpr uint64_t kLeastBlock = 256;
constexpr uint64_t kLargestBlock = 2048;

RowPlace PlaceOf(const std::string& tenant_uid,
                 absl::string_view memory_uid,
                 uint64_t handle,
                 uint64_t slot,
                 uint32_t schema) {
  return {tenant_uid, std::string(memory_uid), handle, slot, schema};
}

}  // namespace

absl::StatusOr<SlotTaker> SlotTaker::Begin(Database* database, KeyStore* keys, SlotUse use) {
  LETHE_CHECK(keys != nullptr);
  SlotTaker taker(database, keys, use);
  LETHE_ASSIGN_OR_RETURN(const int64_t mark, database->QueryInt("SELECT next_slot FROM tenant"));
  taker.first_ = taker.next_ = static_cast<uint64_t>(mark);
  // Rows are numbered upwards, so the last number is at least how many there are.
  LETHE_ASSIGN_OR_RETURN(const int64_t last,
                         database->QueryInt("SELECT coalesce(max(rowid), 0) FROM tokens"));
  taker.prior_seals_ = static_cast<uint64_t>(last);
  return taker;
}

absl::StatusOr<uint64_t> SlotTaker::Take() {
  const uint64_t wanted = next_ + (use_ == SlotUse::kInsert ? kSlotReserve : 0);
  if (wanted > keys_->slots()) {
    const uint64_t block = std::clamp(keys_->slots(), kLeastBlock, kLargestBlock);
    LETHE_RETURN_IF_ERROR(keys_->Allocate(wanted - keys_->slots() + block).status());
  }
  return next_++;
}

absl::Status SlotTaker::Finish() {
  if (next_ == first_) return absl::OkStatus();
  return SetNextSlot(*database_, next_);
}

std::future<void> SlotTaker::MakeAhead() {
  const uint64_t spare = next_ + kSlotReserve + kLargestBlock;
  if (next_ - first_ < kLargestBlock || spare <= keys_->slots() + 1) return {};
  const uint64_t missing = spare - keys_->slots() - 1;
  return std::async(std::launch::async | std::launch::deferred,
                    [keys = keys_, missing] { keys->Allocate(missing).IgnoreError(); });
}

absl::StatusOr<std::string> RowSealer::Seal(absl::string_view memory_uid,
                                            uint64_t handle,
                                            uint64_t slot,
                                            uint64_t prior_seals,
                                            Nonces& nonces,
                                            absl::string_view plaintext) {
  std::string sealed;
  const auto seal = [&](SealingKey& key) -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(
        sealed,
        SealRow(key, PlaceOf(tenant_uid_, memory_uid, handle, slot, schema_), plaintext, &nonces));
    return absl::OkStatus();
  };
  LETHE_RETURN_IF_ERROR(keys_->WithKey(slot, prior_seals, seal));
  return sealed;
}

absl::StatusOr<std::string> RowSealer::Open(absl::string_view memory_uid,
                                            uint64_t handle,
                                            uint64_t slot,
                                            absl::string_view body) {
  std::string plaintext;
  const auto open = [&](SealingKey& key) -> absl::Status {
    LETHE_ASSIGN_OR_RETURN(
        plaintext, OpenRow(key, PlaceOf(tenant_uid_, memory_uid, handle, slot, schema_), body));
    return absl::OkStatus();
  };
  const absl::Status status = keys_->WithKey(slot, 0, open);
  if (status.ok()) return plaintext;
  if (absl::IsFailedPrecondition(status) || absl::IsNotFound(status)) {
    return absl::DataLossError(absl::StrCat(
        status.message(), "; the file is older than the erasure, or the keys are another's"));
  }
  return status;
}

}  // namespace lethe::store
