// Verifies the proof that comes with one certificate, and that one checkpoint extends another.
// Threads: safe. docs/certificate_format.md, section 5.
#ifndef LETHE_AUDIT_VERIFY_PROOF_H_
#define LETHE_AUDIT_VERIFY_PROOF_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "audit/checkpoint.h"
#include "audit/signer.h"
#include "audit/verify.h"
#include "audit/witness.h"

namespace lethe::audit {

struct ProofResult {
  Failure failure = Failure::kNone;
  std::string message;
  // Set when nothing failed.
  Checkpoint checkpoint;
  std::vector<Cosignature> cosignatures;

  bool ok() const { return failure == Failure::kNone; }
};

// A checkpoint note signed by one of these keys and, with a policy, cosigned by its quorum.
ProofResult VerifySignedCheckpoint(absl::string_view note,
                                   std::span<const VerificationKey> keys,
                                   const WitnessPolicy* policy);

// `proof`: a .tlog-proof or a Sigstore bundle of this certificate, told apart by how they begin.
// `certificate`: what VerifyCertificate made of `envelope`; requires certificate.ok().
// `certificate_key`: the key it was verified with. The checkpoint in the proof is checked as above.
ProofResult VerifyCertificateProof(absl::string_view proof,
                                   absl::string_view envelope,
                                   const CertificateResult& certificate,
                                   const VerificationKey& certificate_key,
                                   std::span<const VerificationKey> keys,
                                   const WitnessPolicy* policy);

// Whether the newer checkpoint extends the older one. `proof`: the hashes of an RFC 6962
// consistency proof, one in base64 a line; needed unless the sizes are equal. Requires both to be
// verified. Failures: inconsistent, malformed-proof, proof-mismatch.
ProofResult VerifyExtension(const Checkpoint& older,
                            const Checkpoint& newer,
                            std::optional<absl::string_view> proof);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_VERIFY_PROOF_H_
