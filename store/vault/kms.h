// Where key-encryption keys (KEKs) live: wrapping and unwrapping of data keys, and epochs of the
// KEK. One Kms object is the key of one tenant.
//
// An epoch is one KEK; epochs count from 1, and a number is never used for another key. The largest
// is the current one, under which new data keys are wrapped. Rotation makes the next epoch; when
// nothing is wrapped under an old one any more (KeyStore::Rewrap), it is destroyed, and with it
// every old copy of the wrapped keys, wherever it lies.
//
// For those who add a KMS (PKCS#11, HTTP): a wrapped key has exactly kWrappedKeyBytes bytes,
// AES-256-GCM under the epoch's KEK with the context as AAD. A token with CKM_AES_GCM does that
// itself. A service whose ciphertexts are larger, or too slow to be asked for each data key, wraps
// one KEK an epoch, which then is kept in a SecretBytes while the server runs. Calls take many keys
// at once so that a round trip is paid once. No method may put key material into a message.
//
// Errors, of all methods: UNAVAILABLE when the service cannot be reached (the call may be
// repeated); NOT_FOUND for an epoch that is not there; PERMISSION_DENIED. Others are named below.
// Threads: compatible, not safe.
#ifndef LETHE_STORE_VAULT_KMS_H_
#define LETHE_STORE_VAULT_KMS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/vault/secret_bytes.h"

namespace lethe::store {

inline constexpr size_t kDataKeyBytes = 32;
inline constexpr size_t kWrappedKeyBytes = 12 + kDataKeyBytes + 16;  // nonce, ciphertext, tag

struct KeyToWrap {
  const SecretBytes* key = nullptr;  // kDataKeyBytes
  std::string context;               // what the key is bound to; not secret
};
struct KeyToUnwrap {
  std::string wrapped;
  std::string context;
};

class Kms {
 public:
  virtual ~Kms() = default;

  // For messages to the operator: where this KMS keeps its keys. No secret.
  virtual std::string Location() const = 0;

  // Those that exist, increasing; the last is the current one. FAILED_PRECONDITION after
  // DestroyAll.
  virtual absl::StatusOr<std::vector<uint32_t>> Epochs() = 0;
  absl::StatusOr<uint32_t> CurrentEpoch();

  // One result a key, in order, or an error for all. INVALID_ARGUMENT names the index of a key of a
  // wrong size.
  virtual absl::StatusOr<std::vector<std::string>> Wrap(uint32_t epoch,
                                                        std::span<const KeyToWrap> keys) = 0;
  // DATA_LOSS names the index of the first that was not wrapped under this epoch with this context.
  virtual absl::StatusOr<std::vector<SecretBytes>> Unwrap(uint32_t epoch,
                                                          std::span<const KeyToUnwrap> keys) = 0;

  // Makes a new KEK, durable on return, and returns its epoch. RESOURCE_EXHAUSTED when too many old
  // epochs are waiting to be destroyed.
  virtual absl::StatusOr<uint32_t> Rotate() = 0;
  // Ends an old epoch for good. Idempotent: OK for one that is gone. FAILED_PRECONDITION for the
  // current one; NOT_FOUND for one that never was. An error leaves it destroyed or not; to be
  // repeated.
  virtual absl::Status Destroy(uint32_t epoch) = 0;
  // Ends them all, the current one last: the end of the tenant. To be repeated after an error.
  // Where a KeyStore is open over this object, call KeyStore::DestroyAll, which wipes its cache
  // first.
  virtual absl::Status DestroyAll() = 0;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_VAULT_KMS_H_
