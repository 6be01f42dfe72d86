// The bytes of a slot of keys.db, and what a wrapped data key is bound to.
//
// Slot, 96 bytes, integers little-endian:
//    0   4  "LtK1"
//    4   4  epoch of the KEK, from 1
//    8   8  slot, from 1
//   16  60  wrapped data key: nonce[12] ciphertext[32] tag[16]
//   76   4  0
//   80  16  SHA-256("lethe-key-slot" 00 01 || tenant uid || bytes 0 to 79), first 16 bytes
// A destroyed slot is 96 zeros.
//
// Context (AAD) of the wrapped key, 60 bytes:
//   "lethe-key-wrap" 00 01 (16)   tenant uid (32)   slot (8)   epoch (4)
//
// The check at the end finds damage without asking the KMS; against a writer who means harm stands
// the tag. Errors: DATA_LOSS says which check failed, never what the slot holds.
// Threads: functions without state.
#ifndef LETHE_STORE_VAULT_KEY_SLOT_H_
#define LETHE_STORE_VAULT_KEY_SLOT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/vault/kms.h"

namespace lethe::store {

inline constexpr size_t kSlotBytes = 96;
inline constexpr size_t kWrappedOffset = 16;
inline constexpr absl::string_view kSlotMagic = "LtK1";

struct KeySlot {
  uint64_t slot = 0;
  uint32_t epoch = 0;
  std::string wrapped;  // kWrappedKeyBytes
};

// Requires a tenant uid of 32 bytes and a wrapped key of kWrappedKeyBytes.
std::string EncodeSlot(absl::string_view tenant_uid, const KeySlot& slot);

// Whether a body is that of a destroyed slot.
bool IsDestroyed(absl::string_view body);

// The body of a live slot. DATA_LOSS for anything that EncodeSlot did not make for this place.
absl::StatusOr<KeySlot> DecodeSlot(absl::string_view tenant_uid,
                                   uint64_t slot,
                                   absl::string_view body);

std::string WrapContext(absl::string_view tenant_uid, uint64_t slot, uint32_t epoch);

}  // namespace lethe::store

#endif  // LETHE_STORE_VAULT_KEY_SLOT_H_
