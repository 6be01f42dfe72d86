// DSSE envelopes with exactly one Ed25519 signature.
//
//     PAE(type, body) = "DSSEv1" SP len(type) SP type SP len(body) SP body      what is signed
//     {"payload":"base64","payloadType":"...","signatures":[{"keyid":"...","sig":"base64"}]}
//
// The envelope is canonical JSON (json.h), so that an envelope has one text and its hash names it.
// Source: github.com/secure-systems-lab/dsse, protocol and envelope v1.0. Threads: safe.
#ifndef LETHE_AUDIT_DSSE_H_
#define LETHE_AUDIT_DSSE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/signer.h"

namespace lethe::audit {

inline constexpr absl::string_view kInTotoPayloadType = "application/vnd.in-toto+json";
inline constexpr size_t kMaxEnvelopeBytes = size_t{1} << 20;

struct Envelope {
  std::string payload_type;
  std::string payload;    // decoded
  std::string keyid;      // a hint, outside the signature: VerificationKey::short_name()
  std::string signature;  // decoded, 64 bytes
};

std::string PreAuthenticationEncoding(absl::string_view payload_type, absl::string_view payload);

absl::StatusOr<Envelope> SignEnvelope(absl::string_view payload_type,
                                      absl::string_view payload,
                                      const Signer& signer);
// Whether the signature is the key's over type and payload. Looks neither at keyid nor at the type.
bool VerifyEnvelopeSignature(const Envelope& envelope, const VerificationKey& key);

// INVALID_ARGUMENT when a field is not UTF-8 or the text would exceed kMaxEnvelopeBytes.
absl::StatusOr<std::string> SerializeEnvelope(const Envelope& envelope);
// INVALID_ARGUMENT for any text that SerializeEnvelope would not have written.
absl::StatusOr<Envelope> ParseEnvelope(absl::string_view text);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_DSSE_H_
