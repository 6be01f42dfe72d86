// AES-256-GCM with the nonce given by the caller: the primitive below SealingKey (sealing.h), which
// is what other code calls. A nonce used twice with one key gives both plaintexts away; only test
// vectors give nonces of their own.
//
//   sealed = ciphertext[n] tag[16]        n = size of the plaintext, 1 to kMaxPlaintextBytes
//
// Errors: INVALID_ARGUMENT for a size out of range (an empty plaintext, a nonce that is not 12
// bytes, a key that is not 32, a tag that is cut). DATA_LOSS, always the same words, for whatever
// does not authenticate; then nothing of the plaintext leaves the function. INTERNAL when OpenSSL
// fails. No message holds a byte of key, nonce, text or tag.
// Cost: linear, about a microsecond for short ones. Threads: safe.
// Source: NIST SP 800-38D; OpenSSL EVP_EncryptInit_ex2, Update, Final (never EVP_Cipher, which does
// not say how much it wrote nor whether the tag fits).
#ifndef LETHE_STORE_VAULT_AES_GCM_H_
#define LETHE_STORE_VAULT_AES_GCM_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/vault/secret_bytes.h"

namespace lethe::store {

inline constexpr size_t kAesKeyBytes = 32;
inline constexpr size_t kNonceBytes = 12;
inline constexpr size_t kTagBytes = 16;
inline constexpr size_t kMaxPlaintextBytes = size_t{64} << 20;

// What every failed authentication returns.
absl::Status NotAuthentic();

// Appends ciphertext and tag to `out`, which is unchanged on error.
absl::Status AesGcmSeal(const SecretBytes& key,
                        absl::string_view nonce,
                        absl::string_view context,
                        absl::string_view plaintext,
                        std::string& out);

// Writes sealed.size() - kTagBytes bytes to `out`, which must have room for them. On error they are
// zeros.
absl::Status AesGcmOpen(const SecretBytes& key,
                        absl::string_view nonce,
                        absl::string_view context,
                        absl::string_view sealed,
                        unsigned char* out);

}  // namespace lethe::store

#endif  // LETHE_STORE_VAULT_AES_GCM_H_
