#include "audit/witness.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/checkpoint.h"
#include "audit/encoding.h"
#include "audit/vkey.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

constexpr size_t kTimeBytes = 8;

std::string SignedMessage(absl::string_view checkpoint_text, int64_t unix_time) {
  return absl::StrCat("cosignature/v1\ntime ", unix_time, "\n", checkpoint_text);
}

}  // namespace

WitnessKey::WitnessKey(VerificationKey key)
    : key_(std::move(key)), key_id_(KeyId(key_.name(), KeyType::kCosignature, key_.raw())) {}

absl::StatusOr<WitnessKey> WitnessKey::Parse(absl::string_view vkey) {
  LETHE_ASSIGN_OR_RETURN(const NamedKey key, ParseVkey(vkey, KeyType::kCosignature));
  return FromRaw(key.name, key.raw);
}

absl::StatusOr<WitnessKey> WitnessKey::FromRaw(absl::string_view name,
                                               absl::string_view public_key) {
  LETHE_ASSIGN_OR_RETURN(VerificationKey key, VerificationKey::FromRaw(name, public_key));
  return WitnessKey(std::move(key));
}

std::string WitnessKey::vkey() const {
  return FormatVkey({name(), raw(), key_id_}, KeyType::kCosignature);
}

bool WitnessKey::Owns(const NoteSignature& line) const {
  return line.name == name() && line.key_id == key_id_;
}

bool WitnessKey::Verify(absl::string_view checkpoint_text,
                        const NoteSignature& line,
                        int64_t* unix_time) const {
  if (!Owns(line) || line.signature.size() != kTimeBytes + kSignatureBytes) return false;
  uint64_t time = 0;
  for (size_t i = 0; i < kTimeBytes; ++i) {
    time = time << 8 | static_cast<uint8_t>(line.signature[i]);
  }
  if (time > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return false;
  const int64_t when = static_cast<int64_t>(time);
  if (!key_.Verify(SignedMessage(checkpoint_text, when),
                   absl::string_view(line.signature).substr(kTimeBytes))) {
    return false;
  }
  if (unix_time != nullptr) *unix_time = when;
  return true;
}

WitnessSigner::WitnessSigner(Signer signer, WitnessKey key)
    : signer_(std::move(signer)), key_(std::move(key)) {}

absl::StatusOr<WitnessSigner> WitnessSigner::FromSigner(absl::StatusOr<Signer> signer) {
  if (!signer.ok()) return signer.status();
  const VerificationKey& key = signer->verification_key();
  LETHE_ASSIGN_OR_RETURN(WitnessKey witness, WitnessKey::FromRaw(key.name(), key.raw()));
  return WitnessSigner(*std::move(signer), std::move(witness));
}

absl::StatusOr<WitnessSigner> WitnessSigner::Generate(absl::string_view name) {
  return FromSigner(Signer::Generate(name));
}

absl::StatusOr<WitnessSigner> WitnessSigner::FromSeed(absl::string_view name,
                                                      absl::string_view seed) {
  return FromSigner(Signer::FromSeed(name, seed));
}

absl::StatusOr<WitnessSigner> WitnessSigner::CreateFile(absl::string_view name,
                                                        const std::string& path) {
  return FromSigner(Signer::CreateFile(name, path));
}

absl::StatusOr<WitnessSigner> WitnessSigner::LoadFile(absl::string_view name,
                                                      const std::string& path) {
  return FromSigner(Signer::LoadFile(name, path));
}

absl::StatusOr<NoteSignature> WitnessSigner::Cosign(absl::string_view checkpoint_text,
                                                    int64_t unix_time) const {
  LETHE_RETURN_IF_ERROR(ParseCheckpointText(checkpoint_text).status());
  if (unix_time < 0) return absl::InvalidArgumentError("cosignature: a time before 1970");
  LETHE_ASSIGN_OR_RETURN(const std::string signature,
                         signer_.Sign(SignedMessage(checkpoint_text, unix_time)));
  NoteSignature line{key_.name(), key_.key_id(), ""};
  AppendU64(line.signature, static_cast<uint64_t>(unix_time));
  line.signature += signature;
  if (!key_.Verify(checkpoint_text, line)) {
    return absl::InternalError("cosignature: does not verify after signing");
  }
  return line;
}

}  // namespace lethe::audit
