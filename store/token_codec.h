// The bytes of a token's row, and the keyed hashes under which it is found. The one place that
// knows either: the seam where rows will be sealed with a data key.
//
// Row, version 1, integers and IEEE-754 bits little-endian:
//   u8 version = 1
//   u8[16] check = SHA256("lethe-token-row" 00 01 || memory uid (32) || u64 handle || rest)[0:16]
//   rest = bytes id, bytes subject, doubles key, doubles value, bytes payload, bytes labels, u8[32]
//   salt bytes = u32 length, then the bytes;  doubles = u32 count, then count times f64
//
// The check binds a row to its place, so a flipped bit and a row moved to another handle are both
// found. It is no protection against a writer who means harm; sealed rows will be.
//
// Keyed hashes, with a random secret per tenant:
//   id_key      = HMAC-SHA256(secret, "lethe-id" 00 || memory uid || id)
//   subject_key = HMAC-SHA256(secret, "lethe-subject" 00 || memory uid || subject)
// The memory's uid is in both, so the same id or subject in two memories cannot be linked by them.
//
// Errors: DATA_LOSS for bytes that EncodeToken did not make for this place; the message says which
// check failed, never what the row holds. Threads: functions without state; IndexKeys is immutable.
#ifndef LETHE_STORE_TOKEN_CODEC_H_
#define LETHE_STORE_TOKEN_CODEC_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/tenant_store.h"

namespace lethe::store {

// Requires a memory uid of 32 bytes and fields below 2^32 bytes.
std::string EncodeToken(absl::string_view memory_uid, const TokenRow& row);

absl::StatusOr<TokenRow> DecodeToken(absl::string_view memory_uid,
                                     uint64_t handle,
                                     absl::string_view body);

class IndexKeys {
 public:
  explicit IndexKeys(const Bytes32& secret);
  Bytes32 ForId(absl::string_view memory_uid, absl::string_view id) const;
  Bytes32 ForSubject(absl::string_view memory_uid, absl::string_view subject) const;

 private:
  Bytes32 Hash(absl::string_view tag, absl::string_view memory_uid, absl::string_view text) const;

  // The secret in the two blocks of HMAC (RFC 2104), so that a hash is two runs of SHA-256: an
  // insert and a load need two hashes a token, and OpenSSL's one-shot HMAC costs several times as
  // much.
  std::string inner_block_;
  std::string outer_block_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_TOKEN_CODEC_H_
