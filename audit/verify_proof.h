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
  size_t key = 0;  // which of the keys signed it; the last one when there are several
  std::vector<Cosignature> cosignatures;

  bool ok() const { return failure == Failure::kNone; }
};

// A checkpoint note signed by one of these keys, which are in the order of their use, and, with a
// policy, cosigned by its quorum. A note by itself does not tell when a key was retired: who pins a
// retired one accepts what its holder signs later.
ProofResult VerifySignedCheckpoint(absl::string_view note,
                                   std::span<const VerificationKey> keys,
                                   const WitnessPolicy* policy);

// `proof`: a .tlog-proof or a Sigstore bundle of this certificate, told apart by how they begin.
// `certificate`: what VerifyCertificate made of `envelope`; requires certificate.ok().
// `certificate_key`: the key it was verified with, one of `keys`. The checkpoint in the proof is
// checked as above and must be signed by this key or a later one; by a later one if the certificate
// hands over. Of a tenant-closed it must be the checkpoint that ends with it.
ProofResult VerifyCertificateProof(absl::string_view proof,
                                   absl::string_view envelope,
                                   const CertificateResult& certificate,
                                   const VerificationKey& certificate_key,
                                   std::span<const VerificationKey> keys,
                                   const WitnessPolicy* policy);

// Whether the newer checkpoint extends the older one. `proof`: the hashes of an RFC 6962
// consistency proof, one in base64 a line; needed unless the sizes are equal. Requires both to be
// verified; `older_key` and `newer_key` are their ProofResult::key, and the newer checkpoint must
// not be signed by an earlier key, nor one of the same size by another. Failures: inconsistent,
// checkpoint-signature, malformed-proof, proof-mismatch.
ProofResult VerifyExtension(const Checkpoint& older,
                            size_t older_key,
                            const Checkpoint& newer,
                            size_t newer_key,
                            std::optional<absl::string_view> proof);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_VERIFY_PROOF_H_
