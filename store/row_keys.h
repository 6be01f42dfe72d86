// Which data key seals which row, and the sealing itself, internal to the store. Threads:
// compatible.
//
// One key for each subject of a memory, found again through any of its live rows; one for each
// token without a subject. Keys are slots of keys.db, made in blocks and taken in order; the first
// that no transaction has taken is tenant.next_slot, which is written in the transaction of the
// rows. The slots from there on are free: never used by a row that was committed.
//
// After an erasure no row that remains is under a key that an erased row was under: what remains of
// a subject is sealed anew with a key of its own (TokenTable::Erase).
#ifndef LETHE_STORE_ROW_KEYS_H_
#define LETHE_STORE_ROW_KEYS_H_

#include <cstdint>
#include <future>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/sqlite.h"
#include "store/vault/key_store.h"

namespace lethe::store {

// Free slots that inserts leave to erasures, so that these can go on when the disk is full.
inline constexpr uint64_t kSlotReserve = 256;

// What a sealed row is bound to besides its place: which kind of bytes it holds.
inline constexpr uint32_t kRowSchema = 3;            // of a token (token_codec.h) and its columns
inline constexpr uint32_t kCaseSchema = 0x63617365;  // of the personal part of a case
inline constexpr uint32_t kEncoderSchema = 0x656e636f;  // of a memory's encoder

enum class SlotUse : uint8_t {
  kInsert,  // leaves the reserve
  kErase,   // takes it
};

// The slots that one transaction takes. Lives inside the transaction; nothing is kept between two,
// so that a rollback needs no care.
class SlotTaker {
 public:
  // DATA_LOSS when the mark is not there.
  static absl::StatusOr<SlotTaker> Begin(Database* database, KeyStore* keys, SlotUse use);

  // The next free slot. Makes a block of new keys, durable, when there are too few: with the errors
  // of KeyStore::Allocate, RESOURCE_EXHAUSTED among them. Cost O(1), a commit of keys.db a block.
  absl::StatusOr<uint64_t> Take();
  // Writes the mark.
  absl::Status Finish();
  // Begins to make a further block of keys on another thread, if this transaction took many and few
  // are left: the next one of its kind then finds them, and the making costs the time of the commit
  // that follows here. The file of keys must be left alone until the future is ready. A block that
  // cannot be made is made, with its error, by the one that needs it.
  std::future<void> MakeAhead();

  // At least the number of seals that any key in use has made for rows that are in the file: it is
  // that of one subject, whose rows are all still there.
  uint64_t prior_seals() const { return prior_seals_; }

 private:
  SlotTaker(Database* database, KeyStore* keys, SlotUse use)
      : database_(database), keys_(keys), use_(use) {}

  Database* database_;
  KeyStore* keys_;
  SlotUse use_;
  uint64_t first_ = 0;  // the mark as it was
  uint64_t next_ = 0;   // and as it will be
  uint64_t prior_seals_ = 0;
};

// Seals and opens rows of one tenant.
class RowSealer {
 public:
  // `keys` may be null for a tenant without rows.
  RowSealer(KeyStore* keys, std::string tenant_uid, uint32_t schema = kRowSchema)
      : keys_(keys), tenant_uid_(std::move(tenant_uid)), schema_(schema) {}

  // Makes the calls for rows of these slots that follow cheaper (KeyStore::Prefetch).
  absl::Status Prefetch(std::span<const uint64_t> slots) { return keys_->Prefetch(slots); }

  // KeyStore::Release.
  void Release(uint64_t slot) { keys_->Release(slot); }

  absl::StatusOr<std::string> Seal(absl::string_view memory_uid,
                                   uint64_t handle,
                                   uint64_t slot,
                                   uint64_t prior_seals,
                                   Nonces& nonces,
                                   absl::string_view plaintext);
  // DATA_LOSS, which says why, for a row that was not sealed with this slot for this place, and for
  // one whose key is destroyed. Errors of the vault otherwise.
  absl::StatusOr<std::string> Open(absl::string_view memory_uid,
                                   uint64_t handle,
                                   uint64_t slot,
                                   absl::string_view body);

 private:
  KeyStore* keys_;
  std::string tenant_uid_;
  uint32_t schema_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_ROW_KEYS_H_
