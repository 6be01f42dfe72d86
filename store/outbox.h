// What erasures in tenant.db have still to do outside of it, internal to the store: the keys to
// destroy in keys.db, and what the anchor is to know. The files have no common transaction; what is
// written down here with the erasure is taken up again after a crash. Changing functions must run
// inside the caller's transaction. Threads: compatible.
#ifndef LETHE_STORE_OUTBOX_H_
#define LETHE_STORE_OUTBOX_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/anchor.h"
#include "store/sqlite.h"
#include "store/tenant_store.h"

namespace lethe::store {

class Outbox {
 public:
  explicit Outbox(Database* database) : database_(database) {}

  // Notes the slots of the certificate with this sequence, and what it erased; nothing to do for no
  // slot, since every row has one.
  absl::Status Add(uint64_t sequence, std::span<const uint64_t> slots, const ErasedTokens& erased);
  // Oldest first, at most kMaxPageSize.
  absl::StatusOr<std::vector<PendingErasure>> List();
  // Of every certificate up to this sequence.
  absl::StatusOr<std::vector<uint64_t>> Slots(uint64_t through_sequence);
  // What the anchor is to know beside the certificate, which is the last in the log. A certificate
  // about a memory that is not there any more has ended it.
  absl::Status Complete(AnchorEntry& entry);
  // Returns how many certificates there were.
  absl::StatusOr<uint64_t> Remove(uint64_t through_sequence);

 private:
  Database* database_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_OUTBOX_H_
