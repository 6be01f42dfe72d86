// SHA-256 and HMAC-SHA256 over parts, internal to the store. A part is hashed as it is: callers
// make the boundaries unambiguous with fixed lengths. Cost O(bytes). Threads: functions without
// state.
#ifndef LETHE_STORE_HASH_H_
#define LETHE_STORE_HASH_H_

#include <initializer_list>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/tenant_store.h"

namespace lethe::store {

Bytes32 Sha256(std::initializer_list<absl::string_view> parts);
Bytes32 HmacSha256(const Bytes32& key, std::initializer_list<absl::string_view> parts);

// Fills with bytes from the system's generator. UNAVAILABLE when it has none to give.
absl::Status RandomBytes(Bytes32& out);

// DATA_LOSS for any other length.
absl::StatusOr<Bytes32> ToBytes32(absl::string_view bytes);

inline absl::string_view View(const Bytes32& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace lethe::store

#endif  // LETHE_STORE_HASH_H_
