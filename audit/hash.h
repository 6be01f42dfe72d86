// SHA-256 and HMAC-SHA-256, through OpenSSL's EVP interface.
//
// Byte strings are std::string / absl::string_view everywhere in audit/. Cost: linear. Errors:
// none; a failing OpenSSL call for these two primitives is a broken invariant. Threads: free
// functions are safe, Sha256Hasher is compatible. Source: FIPS 180-4, RFC 2104.
#ifndef LETHE_AUDIT_HASH_H_
#define LETHE_AUDIT_HASH_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"

namespace lethe::audit {

using Digest = std::array<uint8_t, 32>;

// The bytes of a digest (or of any byte array), valid as long as the array is.
template <size_t N>
absl::string_view AsBytes(const std::array<uint8_t, N>& bytes) {
  return absl::string_view(reinterpret_cast<const char*>(bytes.data()), N);
}

Digest Sha256(absl::string_view bytes);
Digest HmacSha256(absl::string_view key, absl::string_view message);

// SHA-256 of a concatenation.
class Sha256Hasher {
 public:
  Sha256Hasher();
  ~Sha256Hasher();
  Sha256Hasher(const Sha256Hasher&) = delete;
  Sha256Hasher& operator=(const Sha256Hasher&) = delete;

  Sha256Hasher& Update(absl::string_view bytes);
  Sha256Hasher& Update(const Digest& digest) { return Update(AsBytes(digest)); }
  Sha256Hasher& UpdateByte(uint8_t byte);
  Sha256Hasher& UpdateU32(uint32_t value);   // big-endian
  Sha256Hasher& UpdateU64(uint64_t value);   // big-endian
  Sha256Hasher& UpdateDouble(double value);  // big-endian IEEE-754 bits
  // The digest of everything so far; afterwards the hasher is as new.
  Digest Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// True when equal; the time does not depend on where they differ.
bool EqualInConstantTime(absl::string_view a, absl::string_view b);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_HASH_H_
