// The wrapped data keys of one tenant: keys.db, fixed slots of 96 bytes (key_slot.h) that are never
// moved, never reused and, when a key is destroyed, overwritten with zeros.
//
//   store  (id = 1, tenant_uid)
//   epochs (epoch, wraps, ending)  wraps: keys wrapped under the epoch so far, at least;
//                                  ending: nothing is wrapped under it any more, and the KMS is
//                                  asked to destroy it, or has done so
//   slots  (slot, body[96])        slots 1, 2, 3, ...; no index, no deletes
//
// keys.db is kept apart from the data (another folder, no data backup), or a restore of the data
// would bring the keys back. The settings of the connection are those of store/sqlite.h.
//
// Destroying keys: the rows are overwritten and committed, in transactions of a bounded size; the
// write-ahead log is moved into the file, truncated and synced; the raw bytes of keys.db and of its
// log are searched (residue.h), and the rows read. If something is found, the file is written anew
// (VACUUM, which takes its size in RAM: up to KeyStoreOptions::max_rewrite_bytes) and searched
// again. The outcome is stated in DestroyResult::evidence, apart from the fact that the keys are
// destroyed. What file systems, devices, snapshots and copies keep of overwritten bytes is outside
// this evidence; it dies when the epoch of the KEK is destroyed.
//
// A change of epoch (Rotate) wraps every live key again, batch by batch, each batch a transaction;
// a slot names its own epoch, so after a crash FinishRotation goes on where it stopped. An old
// epoch is destroyed only after every live slot was unwrapped under the new one, from the file. Its
// end is marked in the file before the KMS is asked for it, and the mark stays until the caller has
// written it down elsewhere (EndedEpochs, ForgetEndedEpochs): no crash loses what was destroyed.
//
// Bounds on the use of a key. Random nonces allow 2^32 seals under one key (sealing.h).
//  * A KEK: every wrap was counted in the file before it was made, in blocks (wrap_block), so a
//    crash or a failed COMMIT leaves the count too high, never too low. Each epoch wraps at most
//    max_wraps_per_epoch keys by that count. Only putting an older keys.db back makes it fall
//    behind; fifteen times, from whatever state to whatever state, are still within the bound at
//    the default. Rotate after putting one back, which starts a new count.
//  * A data key: counted in RAM, from the caller's `prior_seals` on. A count in the file would cost
//    a commit for every key that is used after a start. What the caller's number leaves out (rows
//    sealed and never committed, an older tenant.db put back) may be fifteen times
//    max_seals_per_key, at the default.
//
// Errors of every method: those of store/sqlite.h, among them the indeterminate COMMIT (UNKNOWN,
// IsIndeterminate), after which this object answers UNAVAILABLE and is to be opened again; those of
// the Kms; DATA_LOSS for a slot that is damaged. Messages name files, slots and epochs, never keys.
// Threads: compatible, not safe; the Kms is used by the calling thread.
// Source: audit.md of the design, sections 3 and 4.
#ifndef LETHE_STORE_VAULT_KEY_STORE_H_
#define LETHE_STORE_VAULT_KEY_STORE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/files.h"
#include "store/sqlite.h"
#include "store/vault/dek_cache.h"
#include "store/vault/key_slot.h"
#include "store/vault/kms.h"
#include "store/vault/residue.h"
#include "store/vault/sealing.h"

namespace lethe::store {

inline constexpr DatabaseIdentity kKeyStoreIdentity = {
    .application_id = 0x4c745631,  // "LtV1"
    .user_version = 1,
};

struct KeyStoreOptions {
  // All at least 1.
  size_t cached_keys = 4096;
  size_t rewrap_batch = 1000;     // slots of one transaction
  size_t destroy_batch = 10'000;  // slots of one transaction
  size_t evidence_batch =
      100'000;  // slots of one search, which takes about 100 bytes a slot in RAM
  uint64_t max_rewrite_bytes = uint64_t{256} << 20;  // a larger keys.db is never written anew
  uint64_t max_seals_per_key = kMaxCountedSeals;     // of a data key
  uint64_t max_wraps_per_epoch = kMaxCountedSeals;   // of a KEK
  uint64_t wrap_block = 8192;                        // wraps counted ahead; what a start wastes
  uint64_t wal_checkpoint_bytes = 4u << 20;          // of the log after a commit of new keys
};

enum class SlotState : uint8_t {
  kUnknown = 0,  // never allocated
  kLive = 1,
  kDestroyed = 2,
};

struct DestroyResult {
  uint64_t destroyed = 0;          // live before this call
  uint64_t already_destroyed = 0;  // counted once each, as `destroyed`
  // OK: every row was read back as zeros, the write-ahead log is empty, and the raw bytes of the
  // file hold neither a piece of the wrapped keys (of those destroyed by this call) nor a header of
  // the slots. Otherwise the keys are destroyed all the same, what remains to be done is in the
  // message, and repeating the call tries again. DATA_LOSS: every row was read back as zeros, but a
  // copy stands elsewhere in the file and could not be removed; Rotate makes it worthless.
  // INTERNAL: a row does not read as zeros.
  absl::Status evidence;
  uint64_t bytes_read = 0;  // of the raw file, by the searches that the evidence rests on
  bool rewritten = false;   // VACUUM was needed
};

struct RotationResult {
  uint64_t rewrapped = 0;
  std::vector<uint32_t> destroyed_epochs;
  // OK: no header of a destroyed epoch is left in the raw bytes. Otherwise copies of wrapped keys
  // stayed, which nothing can unwrap any more.
  absl::Status evidence;
};

struct RemovalResult {
  uint64_t destroyed = 0;          // live slots that this call found
  uint64_t already_destroyed = 0;  // destroyed slots that this call found
  // False: there was no key store any more, or it was damaged; the numbers above are 0.
  bool counted = false;
  uint64_t bytes_overwritten = 0;  // read back as zeros
};

class KeyStore {
 public:
  static constexpr uint64_t kMaxAllocate = 10'000;

  // Makes the file: under another name (path + ".new"), which is renamed when it is whole. Requires
  // `kms` to outlive the result, a tenant uid of 32 lower-case hex digits (INVALID_ARGUMENT).
  // Durable on return. After an error or a crash there is no file of this name, and Create may be
  // called again, or a whole one (ALREADY_EXISTS), to be opened. FAILED_PRECONDITION for a log
  // without its file.
  static absl::StatusOr<std::unique_ptr<KeyStore>> Create(const std::string& path,
                                                          absl::string_view tenant_uid,
                                                          Kms* kms,
                                                          const KeyStoreOptions& options = {});
  // Checks the file before anything is served: SQLite's quick check, the tenant, every slot (none
  // missing, header and check value right, its epoch in the KMS), and unwraps one key an epoch.
  // FAILED_PRECONDITION or DATA_LOSS say what is wrong and what to do. Cost O(slots).
  static absl::StatusOr<std::unique_ptr<KeyStore>> Open(const std::string& path,
                                                        absl::string_view tenant_uid,
                                                        Kms* kms,
                                                        const KeyStoreOptions& options = {});
  ~KeyStore();
  KeyStore(const KeyStore&) = delete;
  KeyStore& operator=(const KeyStore&) = delete;

  // Makes `count` new data keys (1 to kMaxAllocate) in one transaction and returns the first slot;
  // the others follow it. Durable on return. A caller that crashes before it refers to them leaves
  // live slots that nothing uses: compare LiveSlots with what is referred to, and destroy the rest.
  // RESOURCE_EXHAUSTED when the current KEK has wrapped too many keys: rotate.
  absl::StatusOr<uint64_t> Allocate(uint64_t count);

  absl::StatusOr<SlotState> State(uint64_t slot);
  // Increasing, above `after`, at most `limit` of them.
  absl::StatusOr<std::vector<uint64_t>> LiveSlots(uint64_t after, uint32_t limit);
  // Of the slots up to `through`. Cost O(through).
  absl::StatusOr<uint64_t> CountLive(uint64_t through);
  uint64_t slots() const { return slots_; }  // ever allocated

  // Calls `use` with the data key of a live slot and returns what it returns. The key is valid
  // during the call only, in which the store must not be called. `prior_seals`: at least the number
  // of seals that this key may have made before the store was opened (the number of handles ever
  // given out in its memory will do); 0 for opening only. NOT_FOUND for a slot never allocated,
  // FAILED_PRECONDITION for a destroyed one.
  // Cost: O(1) from the cache; else a row and an Unwrap.
  absl::Status WithKey(uint64_t slot,
                       uint64_t prior_seals,
                       absl::FunctionRef<absl::Status(SealingKey& key)> use);

  // Wipes the key of this slot from the cache, which leaves room for others: it is not expected to
  // be used again soon. Its seals are forgotten with it.
  void Release(uint64_t slot) { cache_.Evict(slot); }

  // Brings those of these slots into the cache that are not there, at most as many as it holds, so
  // that the calls of WithKey that follow cost no row and no Unwrap of their own. Slots that
  // WithKey would refuse are left to it. Cost: a row for each, in one pass where they lie close
  // together, and an Unwrap for each epoch.
  absl::Status Prefetch(std::span<const uint64_t> slots);

  // Idempotent; in any order, of any number; slots may repeat. NOT_FOUND names the index of a slot
  // never allocated, and changes nothing. Another error may leave some of them destroyed, whole
  // transactions of them; repeat it. The cached keys are wiped first, whatever follows. Cost: a
  // commit and a checkpoint for each destroy_batch of slots, a pass over the file for each
  // evidence_batch; RAM bounded by the latter, but for 8 bytes a slot.
  absl::StatusOr<DestroyResult> Destroy(std::span<const uint64_t> slots);

  // Makes a new epoch, then FinishRotation.
  absl::StatusOr<RotationResult> Rotate();
  // Wraps what is not under the current epoch under it, and destroys the epochs before it. Nothing
  // to do when there is only one. To be called at start and after an error. Cost O(live slots).
  absl::StatusOr<RotationResult> FinishRotation();

  // The epochs that were destroyed, increasing, and that were not yet forgotten: to be named in the
  // next certificate, whenever the destruction itself was. A crash between the certificate and
  // ForgetEndedEpochs lists them once more; compare with the last certificate that names any.
  absl::StatusOr<std::vector<uint32_t>> EndedEpochs();
  // Forgets those up to `through` that are destroyed; of others it keeps the mark. Idempotent.
  absl::Status ForgetEndedEpochs(uint32_t through);

  // The end of the tenant, first step: wipes the cached data keys and destroys all epochs of the
  // KEK (Kms::DestroyAll, which a KeyStore must not be left to find out). From then on, also after
  // an error, every other method answers FAILED_PRECONDITION. To be repeated after an error. Then
  // close it and call Remove.
  absl::Status DestroyAll();
  // Second step, also where Open is impossible, since the KEK is gone or the file is damaged:
  // overwrites the files of the key store at `path` (its log and drafts too) with zeros, every
  // byte, reads them back and unlinks them; durable on return. Requires that nobody has it open
  // (UNAVAILABLE where that shows). Idempotent; OK when all or half of it is gone. A file that is
  // no key store is left alone (FAILED_PRECONDITION). Cost O(size), twice.
  static absl::StatusOr<RemovalResult> Remove(const std::string& path);

  // OK, or UNAVAILABLE: close it and open it again.
  absl::Status Health() const;
  const DekCache& cache() const { return cache_; }

 private:
  struct StoredSlot {
    uint64_t slot;
    std::string body;
  };

  KeyStore(std::string path,
           absl::string_view tenant_uid,
           Kms* kms,
           const KeyStoreOptions& options);

  absl::Status OpenRaw();
  // The same at the same place, without a look at what it holds.
  absl::Status OpenNew();
  absl::Status MakeTables();
  absl::Status CheckAll();
  absl::Status CheckFile();
  absl::Status CheckEpoch(uint32_t epoch, const KeySlot& first);
  absl::StatusOr<std::string> ReadBody(uint64_t slot);
  // Of these slots, increasing and all allocated.
  absl::StatusOr<std::vector<StoredSlot>> ReadBodiesOf(std::span<const uint64_t> slots);
  // Slots above `after`, at most `limit`.
  absl::StatusOr<std::vector<StoredSlot>> ReadBodies(uint64_t after, size_t limit);
  // Counts wraps that are about to be made, in a transaction of its own where the file must be
  // told. RESOURCE_EXHAUSTED when the epoch has wrapped too many.
  absl::Status CountWraps(uint32_t epoch, uint64_t count);
  absl::StatusOr<std::vector<std::string>> WrapKeys(uint32_t epoch,
                                                    std::span<const uint64_t> slots,
                                                    std::span<const SecretBytes> keys);
  absl::StatusOr<std::vector<SecretBytes>> UnwrapKeys(std::span<const KeySlot> slots);
  absl::Status WriteBodies(std::span<const KeySlot> slots);
  // Wraps what of this batch is not under `epoch`; returns how many.
  absl::StatusOr<uint64_t> RewrapBatch(uint32_t epoch, std::span<const StoredSlot> batch);
  // Unwraps every live slot under `epoch`.
  absl::Status ProveUnder(uint32_t epoch);
  absl::Status MarkEnding(std::span<const uint32_t> epochs);
  // Overwrites the rows of these slots, in ascending order, and tells the scanner what to look for.
  absl::Status DestroyRows(std::span<const uint64_t> slots,
                           ResidueScanner& scanner,
                           DestroyResult& result);
  absl::Status ProveDestroyed(std::span<const uint64_t> slots,
                              ResidueScanner& scanner,
                              DestroyResult& result);
  // Empties the log and searches; writes the file anew when something is found.
  absl::Status Prove(ResidueScanner& scanner, uint64_t& bytes_read, bool& rewritten);
  absl::StatusOr<Residue> Search(ResidueScanner& scanner);

  std::string path_;
  std::string tenant_uid_;
  Kms* kms_;
  KeyStoreOptions options_;
  DekCache cache_;
  uint64_t slots_ = 0;
  // Above the connection, so that it is closed after it: closing any descriptor of the file drops
  // the POSIX locks that SQLite holds on it.
  FileDescriptor raw_;
  std::unique_ptr<Database> db_;
  absl::Status broken_;
  std::map<uint32_t, uint64_t> counted_wraps_;  // counted in the file and not yet made, by epoch
};

}  // namespace lethe::store

#endif  // LETHE_STORE_VAULT_KEY_STORE_H_
