// Hex, base64 and big-endian numbers. Decoders are strict: one text for one byte string, so that
// whatever decodes also encodes back to the same text. Errors: INVALID_ARGUMENT with the offset,
// never with the text. Threads: safe. Source: RFC 4648 sections 4 and 8.
#ifndef LETHE_AUDIT_ENCODING_H_
#define LETHE_AUDIT_ENCODING_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/hash.h"

namespace lethe::audit {

// Lower-case hex.
std::string Hex(absl::string_view bytes);
std::string Hex(const Digest& digest);
// Lower-case hex of an even length only.
absl::StatusOr<std::string> DecodeHex(absl::string_view text);
// Exactly 64 lower-case hex digits.
absl::StatusOr<Digest> DecodeDigest(absl::string_view text);

// The standard alphabet, with padding.
std::string Base64(absl::string_view bytes);
std::string Base64(const Digest& digest);
// Refuses other alphabets, white space, missing padding and padding bits that are not zero.
absl::StatusOr<std::string> DecodeBase64(absl::string_view text);
// The base64 of exactly 32 bytes.
absl::StatusOr<Digest> DecodeBase64Digest(absl::string_view text);

void AppendU32(std::string& out, uint32_t value);   // big-endian
void AppendU64(std::string& out, uint64_t value);   // big-endian
void AppendDouble(std::string& out, double value);  // big-endian IEEE-754 bits

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_ENCODING_H_
