#include "audit/certificate.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/dsse.h"
#include "audit/encoding.h"
#include "audit/json.h"
#include "audit/merkle.h"
#include "audit/statement.h"
#include "audit/verify.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lethe::audit {

absl::string_view Name(CertificateKind kind) {
  switch (kind) {
    case CertificateKind::kForget:
      return "forget";
    case CertificateKind::kEdit:
      return "edit";
    case CertificateKind::kEvict:
      return "evict";
    case CertificateKind::kShredded:
      return "shredded";
    case CertificateKind::kRetrainCheck:
      return "retrain-check";
    case CertificateKind::kTenantClosed:
      return "tenant-closed";
    case CertificateKind::kKeyHandover:
      return "key-handover";
    case CertificateKind::kRestored:
      return "restored";
  }
  LETHE_CHECK(false);
}

absl::string_view Name(VerdictClass verdict) {
  switch (verdict) {
    case VerdictClass::kBitIdentical:
      return "bit-identical";
    case VerdictClass::kProven:
      return "proven";
    case VerdictClass::kBounded:
      return "bounded";
    case VerdictClass::kUncertified:
      return "uncertified";
  }
  LETHE_CHECK(false);
}

absl::StatusOr<std::string> SerializeStatement(const CertificateBody& body) {
  LETHE_RETURN_IF_ERROR(ValidateBody(body));
  return SerializeJson(StatementToJson(body));
}

absl::StatusOr<CertificateBody> ParseStatement(absl::string_view text) {
  LETHE_ASSIGN_OR_RETURN(const Json json, ParseJson(text, JsonForm::kCanonical));
  return StatementFromJson(json);
}

std::string LeafBytes(absl::string_view payload,
                      absl::string_view signature,
                      const VerificationKey& key) {
  Json public_key = Json::MakeObject();
  public_key.Set("rawBytes", Json::String(Base64(key.SpkiDer())));
  Json verifier = Json::MakeObject();
  verifier.Set("keyDetails", Json::String("PKIX_ED25519"));
  verifier.Set("publicKey", std::move(public_key));
  Json entry = Json::MakeObject();
  entry.Set("content", Json::String(Base64(signature)));
  entry.Set("verifier", std::move(verifier));
  Json hash = Json::MakeObject();
  hash.Set("algorithm", Json::String("SHA2_256"));
  hash.Set("digest", Json::String(Base64(Sha256(payload))));
  Json body = Json::MakeObject();
  body.Set("payloadHash", std::move(hash));
  body.Set("signatures", Json::MakeArray({std::move(entry)}));
  Json spec = Json::MakeObject();
  spec.Set("dsseV002", std::move(body));
  Json leaf = Json::MakeObject();
  leaf.Set("apiVersion", Json::String("0.0.2"));
  leaf.Set("kind", Json::String("dsse"));
  leaf.Set("spec", std::move(spec));
  absl::StatusOr<std::string> text = SerializeJson(leaf);
  // Base64 and constants only: always serialisable, and always about 400 bytes.
  LETHE_CHECK(text.ok() && text->size() <= kMaxLeafBytes);
  return *std::move(text);
}

absl::StatusOr<SignedCertificate> BuildCertificate(const CertificateBody& body,
                                                   const Signer& signer) {
  const VerificationKey& key = signer.verification_key();
  if (body.origin != key.name()) {
    return absl::InvalidArgumentError("origin: must be the name of the signing key");
  }
  LETHE_ASSIGN_OR_RETURN(const std::string payload, SerializeStatement(body));
  LETHE_ASSIGN_OR_RETURN(const Envelope envelope,
                         SignEnvelope(kInTotoPayloadType, payload, signer));
  SignedCertificate certificate;
  certificate.body = body;
  LETHE_ASSIGN_OR_RETURN(certificate.envelope, SerializeEnvelope(envelope));
  certificate.id = Hex(Sha256(certificate.envelope));
  certificate.leaf = LeafBytes(payload, envelope.signature, key);
  certificate.leaf_hash = LeafHash(certificate.leaf);

  // A flipped bit between hashing and signing would be signed for ever; read it back as a stranger
  // would.
  const CertificateResult judged =
      VerifyCertificate(certificate.envelope, certificate.leaf, key, body.origin);
  if (!judged.ok() || !(*judged.body == body) || judged.id != certificate.id ||
      judged.leaf_hash != certificate.leaf_hash) {
    return absl::InternalError(
        absl::StrCat("certificate: does not verify after signing: ", judged.message));
  }
  return certificate;
}

}  // namespace lethe::audit
