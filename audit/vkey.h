// The text form of Ed25519 keys with a name, shared by log keys (type 01) and witness keys (04).
//
//     key_id = SHA256(name || 0A || type || pk32)[0:4]
//     vkey   = name "+" hex8(key_id) "+" base64(type || pk32)
//
// Errors: INVALID_ARGUMENT. Threads: safe. Source: C2SP signed-note, tlog-cosignature.
#ifndef LETHE_AUDIT_VKEY_H_
#define LETHE_AUDIT_VKEY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lethe::audit {

enum class KeyType : uint8_t { kEd25519 = 0x01, kCosignature = 0x04 };

inline constexpr size_t kPublicKeyBytes = 32;
inline constexpr size_t kKeyIdBytes = 4;
inline constexpr size_t kSignatureBytes = 64;

struct NamedKey {
  std::string name;
  std::string raw;     // 32 bytes
  std::string key_id;  // 4 bytes
};

std::string KeyId(absl::string_view name, KeyType type, absl::string_view raw);
// Any other text, another type, a key id that does not fit and a name that ValidateKeyName refuses
// are errors.
absl::StatusOr<NamedKey> ParseVkey(absl::string_view vkey, KeyType type);
std::string FormatVkey(const NamedKey& key, KeyType type);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_VKEY_H_
