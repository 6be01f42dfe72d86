#include "audit/dsse.h"

#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "audit/json.h"
#include "audit/json_reader.h"
#include "core/base/status_macros.h"

namespace lethe::audit {

std::string PreAuthenticationEncoding(absl::string_view payload_type, absl::string_view payload) {
  return absl::StrCat("DSSEv1 ", payload_type.size(), " ", payload_type, " ", payload.size(), " ",
                      payload);
}

absl::StatusOr<Envelope> SignEnvelope(absl::string_view payload_type,
                                      absl::string_view payload,
                                      const Signer& signer) {
  Envelope envelope;
  envelope.payload_type = std::string(payload_type);
  envelope.payload = std::string(payload);
  envelope.keyid = signer.verification_key().short_name();
  LETHE_ASSIGN_OR_RETURN(envelope.signature,
                         signer.Sign(PreAuthenticationEncoding(payload_type, payload)));
  return envelope;
}

bool VerifyEnvelopeSignature(const Envelope& envelope, const VerificationKey& key) {
  return key.Verify(PreAuthenticationEncoding(envelope.payload_type, envelope.payload),
                    envelope.signature);
}

absl::StatusOr<std::string> SerializeEnvelope(const Envelope& envelope) {
  Json signature = Json::MakeObject();
  signature.Set("keyid", Json::String(envelope.keyid));
  signature.Set("sig", Json::String(Base64(envelope.signature)));
  Json json = Json::MakeObject();
  json.Set("payload", Json::String(Base64(envelope.payload)));
  json.Set("payloadType", Json::String(envelope.payload_type));
  json.Set("signatures", Json::MakeArray({std::move(signature)}));
  LETHE_ASSIGN_OR_RETURN(std::string text, SerializeJson(json));
  if (text.size() > kMaxEnvelopeBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("envelope: ", text.size(), " bytes, allowed are ", kMaxEnvelopeBytes));
  }
  return text;
}

absl::StatusOr<Envelope> ParseEnvelope(absl::string_view text) {
  JsonLimits limits;
  limits.max_bytes = kMaxEnvelopeBytes;
  LETHE_ASSIGN_OR_RETURN(const Json json, ParseJson(text, JsonForm::kCanonical, limits));
  JsonReader reader(json, "");
  Envelope envelope;
  envelope.payload = reader.Base64Bytes("payload");
  envelope.payload_type = reader.String("payloadType");
  const Json::Array& signatures = reader.Array("signatures");
  if (signatures.size() != 1) {
    reader.Fail("signatures", "exactly one is required");
  } else {
    JsonReader signature(signatures[0], "signatures[0]");
    envelope.keyid = signature.String("keyid");
    envelope.signature = signature.Base64Bytes("sig");
    if (envelope.signature.size() != 64) signature.Fail("sig", "not 64 bytes");
    reader.Adopt(signature);
  }
  LETHE_RETURN_IF_ERROR(reader.Finish());
  return envelope;
}

}  // namespace lethe::audit
