// The bytes of a token's row before it is sealed, and the keyed hashes under which it is found.
//
// Row, version 2, integers and IEEE-754 bits little-endian:
//   u8 version = 2
//   bytes id, bytes subject, doubles key, doubles value, bytes payload, bytes labels, u8[32] salt
//   bytes = u32 length, then the bytes;  doubles = u32 count, then count times f64
// Version 1 carried a check value. Sealing (row_keys.h) finds flipped bits and rows in a wrong
// place, and binds memory and handle, so they are not in here.
//
// Keyed hashes, with a random secret per tenant:
//   id_key      = HMAC-SHA256(secret, "lethe-id" 00 || memory uid || id), its first 16 bytes
//   subject_key = HMAC-SHA256(secret, "lethe-subject" 00 || memory uid || subject), likewise
//   hold key    = HMAC-SHA256(secret, "lethe-hold" 00 || tenant uid || subject), likewise
// The memory's uid is in the first two, so the same id or subject in two memories cannot be linked
// by them. 128 bits: two of n ids of a memory share a hash with probability below n^2 / 2^129, for
// a thousand million 2^-69, and nobody can look for such a pair without the secret. Then the second
// is refused as being there already; a row whose hash is not its own id's is found when it is read.
//
// Errors: DATA_LOSS for bytes that EncodeToken did not make; the message says which check failed,
// never what the row holds. Threads: functions without state; IndexKeys is immutable.
#ifndef LETHE_STORE_TOKEN_CODEC_H_
#define LETHE_STORE_TOKEN_CODEC_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/tenant_store.h"
#include "store/vault/secret_bytes.h"

namespace lethe::store {

inline constexpr size_t kIndexSecretBytes = 32;
using IndexHash = std::array<uint8_t, 16>;

// Everything but the handle. Requires fields below 2^32 bytes.
std::string EncodeToken(const TokenRow& row);

absl::StatusOr<TokenRow> DecodeToken(uint64_t handle, absl::string_view body);

class IndexKeys {
 public:
  // Requires kIndexSecretBytes.
  explicit IndexKeys(const SecretBytes& secret);
  IndexHash ForId(absl::string_view memory_uid, absl::string_view id) const;
  IndexHash ForSubject(absl::string_view memory_uid, absl::string_view subject) const;
  // Of a legal hold, which is on the subject in all memories of the tenant.
  IndexHash ForHold(absl::string_view tenant_uid, absl::string_view subject) const;

 private:
  IndexHash Hash(absl::string_view tag, absl::string_view memory_uid, absl::string_view text) const;

  // The secret in the two blocks of HMAC (RFC 2104), so that a hash is two runs of SHA-256: an
  // insert and a load need two hashes a token, and OpenSSL's one-shot HMAC costs several times as
  // much.
  SecretBytes inner_block_;
  SecretBytes outer_block_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_TOKEN_CODEC_H_
