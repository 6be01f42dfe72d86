// Sealing with a key that is used a bounded number of times, and the bytes of a sealed row.
//
// Sealed bytes:   nonce[12] ciphertext[n] tag[16]
//
// Sealed row, version 1, integers little-endian, 37 bytes more than the plaintext:
//    0   1  version = 1
//    1   8  slot of the data key in keys.db
//    9  12  nonce, random
//   21   n  ciphertext, n >= 1
//  21+n 16  tag
// Context (AAD) of a row, 102 bytes:
//    0  16  "lethe-sealed-row" (ASCII)
//   16   1  version = 1
//   17   1  0
//   18  32  tenant uid       50  32  memory uid        (lower-case hex digits)
//   82   8  handle           90   8  slot           98   4  schema version
// Every field has a fixed width, so no two places share a context. A row that is moved to another
// tenant, memory, handle, slot or schema does not open.
//
// Nonces are random: two seals of 2^32 under one key meet with probability below 2^-32 (SP 800-38D,
// 8.3), so a key refuses its 2^32-th seal. Counters are not used as nonces, since a restored copy
// of the data would repeat them.
//
// Errors: as in aes_gcm.h; RESOURCE_EXHAUSTED from a key that is used up; FAILED_PRECONDITION from
// one that holds zeros (secret_bytes.h). Cost: aes_gcm.h, and random.h for a nonce.
// Threads: compatible (sealing counts). Source: audit.md of the design, section 3; SP 800-38D.
#ifndef LETHE_STORE_VAULT_SEALING_H_
#define LETHE_STORE_VAULT_SEALING_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/vault/aes_gcm.h"
#include "store/vault/random.h"
#include "store/vault/secret_bytes.h"

namespace lethe::store {

inline constexpr uint64_t kMaxSealsPerKey = uint64_t{1} << 32;
// Where a count may fall behind the truth (a file that was put back, a caller's estimate), the key
// is used this often by the count: sixteen times as many seals are still within the bound.
inline constexpr uint64_t kMaxCountedSeals = kMaxSealsPerKey / 16;
inline constexpr size_t kSealOverhead = kNonceBytes + kTagBytes;
inline constexpr size_t kSealedRowOverhead = 1 + 8 + kSealOverhead;

class SealingKey {
 public:
  // Requires a key of 32 bytes. `prior_seals`: at least as many as this key has made before;
  // `max_seals` above kMaxSealsPerKey counts as that.
  explicit SealingKey(SecretBytes key,
                      uint64_t prior_seals = 0,
                      uint64_t max_seals = kMaxSealsPerKey);

  // nonce, ciphertext, tag. Every call counts, the failed ones too.
  // Without `nonces` it draws its own.
  absl::StatusOr<std::string> Seal(absl::string_view context,
                                   absl::string_view plaintext,
                                   Nonces* nonces = nullptr);
  absl::StatusOr<std::string> Open(absl::string_view context, absl::string_view sealed) const;

  // The same for a key as plaintext, which never leaves locked memory.
  absl::StatusOr<std::string> SealSecret(absl::string_view context,
                                         const SecretBytes& secret,
                                         Nonces* nonces = nullptr);
  absl::StatusOr<SecretBytes> OpenSecret(absl::string_view context, absl::string_view sealed) const;

  uint64_t seals() const { return seals_; }
  // Corrects the count upwards.
  void CountAtLeast(uint64_t seals);

 private:
  absl::Status CheckKey() const;

  SecretBytes key_;
  uint64_t seals_;
  uint64_t max_seals_;
};

// Where a row lives.
struct RowPlace {
  std::string tenant_uid;  // 32 bytes
  std::string memory_uid;  // 32 bytes
  uint64_t handle = 0;
  uint64_t slot = 0;
  uint32_t schema_version = 0;
};

// INVALID_ARGUMENT when a uid has not 32 bytes.
absl::StatusOr<std::string> SealRow(SealingKey& key,
                                    const RowPlace& place,
                                    absl::string_view plaintext,
                                    Nonces* nonces = nullptr);

// The slot that a sealed row names, before anything is authenticated: only to find the key with.
// DATA_LOSS for another version or fewer bytes than the shortest row has.
absl::StatusOr<uint64_t> SlotOfRow(absl::string_view row);

// DATA_LOSS for anything but what SealRow made with this key for this place.
absl::StatusOr<std::string> OpenRow(const SealingKey& key,
                                    const RowPlace& place,
                                    absl::string_view row);

}  // namespace lethe::store

#endif  // LETHE_STORE_VAULT_SEALING_H_
