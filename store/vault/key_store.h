// The wrapped data keys of one tenant: keys.db, fixed slots of 96 bytes (key_slot.h) that are never
// moved, never reused and, when a key is destroyed, overwritten with zeros.
//
//   store  (id = 1, tenant_uid)
//   epochs (epoch, wraps)        keys wrapped under each epoch so far, at least
//   slots  (slot, body[96])      slots 1, 2, 3, ...; no index, no deletes
//
// keys.db is kept apart from the data (another folder, no data backup), or a restore of the data
// would bring the keys back. The settings of the connection are those of store/sqlite.h.
//
// Destroying keys is one transaction, however many: the rows are overwritten and committed, the
// write-ahead log is moved into the file and truncated, the rows are read, and then the raw bytes
// of keys.db and of its log are searched (residue.h). If something is found, the file is written
// anew (VACUUM) and searched again. The outcome is stated in DestroyResult::evidence, apart from
// the fact that the keys are destroyed. What file systems, devices, snapshots and copies keep of
// overwritten bytes is outside this evidence; it dies when the epoch of the KEK is destroyed.
//
// A change of epoch (Rotate) wraps every live key again, batch by batch, each batch a transaction;
// a slot names its own epoch, so after a crash FinishRotation goes on where it stopped. An old
// epoch is destroyed only after every live slot was unwrapped under the new one, from the file.
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
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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
  size_t cached_keys = 4096;                       // at least 1
  size_t rewrap_batch = 1000;                      // slots of one transaction, at least 1
  uint64_t max_seals_per_key = kMaxSealsPerKey;    // of a data key
  uint64_t max_wraps_per_epoch = kMaxSealsPerKey;  // of a KEK
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
  // message, and repeating the call tries again. DATA_LOSS: a copy is there and could not be
  // removed.
  absl::Status evidence;
  uint64_t bytes_read = 0;  // of the raw file, by the search that the evidence rests on
  bool rewritten = false;   // VACUUM was needed
};

struct RotationResult {
  uint64_t rewrapped = 0;
  std::vector<uint32_t> destroyed_epochs;
  // OK: no header of a destroyed epoch is left in the raw bytes. Otherwise copies of wrapped keys
  // stayed, which nothing can unwrap any more.
  absl::Status evidence;
};

class KeyStore {
 public:
  static constexpr uint64_t kMaxAllocate = 10'000;

  // Makes the file. Requires `kms` to outlive the result, a tenant uid of 32 lower-case hex digits
  // (INVALID_ARGUMENT). Durable on return; what a crash leaves is no key store and is refused by
  // Open.
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

  // Idempotent; in any order; slots may repeat. NOT_FOUND names the index of a slot never
  // allocated, and changes nothing. The cached keys are wiped first, whatever follows. Cost: one
  // commit, one checkpoint, one pass over the file for the whole list.
  absl::StatusOr<DestroyResult> Destroy(std::span<const uint64_t> slots);

  // Makes a new epoch, then FinishRotation.
  absl::StatusOr<RotationResult> Rotate();
  // Wraps what is not under the current epoch under it, and destroys the epochs before it. Nothing
  // to do when there is only one. To be called at start and after an error. Cost O(live slots).
  absl::StatusOr<RotationResult> FinishRotation();

  // OK, or UNAVAILABLE: close it and open it again.
  absl::Status Health() const;
  const DekCache& cache() const { return cache_; }

 private:
  class RawFile {
   public:
    explicit RawFile(int file) : file_(file) {}
    ~RawFile();
    RawFile(const RawFile&) = delete;
    RawFile& operator=(const RawFile&) = delete;
    int get() const { return file_; }

   private:
    int file_;
  };
  struct StoredSlot {
    uint64_t slot;
    std::string body;
  };

  KeyStore(std::string path,
           absl::string_view tenant_uid,
           Kms* kms,
           const KeyStoreOptions& options);

  absl::Status OpenRaw();
  absl::Status MakeTables();
  absl::Status CheckAll();
  absl::Status CheckFile();
  absl::Status CheckEpoch(uint32_t epoch, const KeySlot& first);
  absl::StatusOr<std::string> ReadBody(uint64_t slot);
  // Slots above `after`, at most `limit`.
  absl::StatusOr<std::vector<StoredSlot>> ReadBodies(uint64_t after, size_t limit);
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
  std::unique_ptr<RawFile> raw_;
  std::unique_ptr<Database> db_;
  absl::Status broken_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_VAULT_KEY_STORE_H_
