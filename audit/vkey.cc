#include "audit/vkey.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "audit/encoding.h"
#include "audit/hash.h"
#include "audit/signer.h"
#include "core/base/status_macros.h"

namespace lethe::audit {

std::string KeyId(absl::string_view name, KeyType type, absl::string_view raw) {
  Sha256Hasher hasher;
  hasher.Update(name).Update("\n").UpdateByte(static_cast<uint8_t>(type)).Update(raw);
  return std::string(AsBytes(hasher.Finish()).substr(0, kKeyIdBytes));
}

absl::StatusOr<NamedKey> ParseVkey(absl::string_view vkey, KeyType type) {
  // Base64 may contain '+' too, so that only the first two separate.
  const std::vector<absl::string_view> parts = absl::StrSplit(vkey, absl::MaxSplits('+', 2));
  if (parts.size() != 3) {
    return absl::InvalidArgumentError("verification key: expected name+hex8+base64");
  }
  const absl::StatusOr<std::string> key_id = DecodeHex(parts[1]);
  if (!key_id.ok() || key_id->size() != kKeyIdBytes) {
    return absl::InvalidArgumentError(
        "verification key: the key id is not 8 lower-case hex digits");
  }
  const absl::StatusOr<std::string> body = DecodeBase64(parts[2]);
  if (!body.ok()) return absl::InvalidArgumentError("verification key: the key is not base64");
  if (body->size() != 1 + kPublicKeyBytes || (*body)[0] != static_cast<char>(type)) {
    return absl::InvalidArgumentError(
        type == KeyType::kEd25519 ? "verification key: not an Ed25519 key (01 and 32 bytes)"
                                  : "verification key: not a witness key (04 and 32 bytes)");
  }
  LETHE_RETURN_IF_ERROR(ValidateKeyName(parts[0]));
  NamedKey key{std::string(parts[0]), body->substr(1), *key_id};
  if (KeyId(key.name, type, key.raw) != key.key_id) {
    return absl::InvalidArgumentError("verification key: the key id does not fit name and key");
  }
  return key;
}

std::string FormatVkey(const NamedKey& key, KeyType type) {
  std::string body(1, static_cast<char>(type));
  body += key.raw;
  return absl::StrCat(key.name, "+", Hex(key.key_id), "+", Base64(body));
}

}  // namespace lethe::audit
