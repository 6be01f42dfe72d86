// The verifier: bytes and a pinned key in, a verdict that names the failing check out. No clock, no
// files, no network; a key found in the input is compared with the pinned one and never trusted.
// docs/certificate_format.md, section 5, lists the checks in this order. Threads: safe.
#ifndef LETHE_AUDIT_VERIFY_H_
#define LETHE_AUDIT_VERIFY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "audit/certificate.h"
#include "audit/hash.h"
#include "audit/merkle.h"
#include "audit/signer.h"

namespace lethe::audit {

// The check that failed; of certificates and chains in the order they run.
enum class Failure : uint8_t {
  kNone,
  // One certificate.
  kMalformedEnvelope,
  kWrongPayloadType,
  kUnknownKey,  // the envelope names another key than the pinned one
  kBadSignature,
  kNonCanonicalPayload,  // signed, and yet not the one text of its JSON value
  kBadStatement,         // signed canonical JSON that breaks a rule of the statement
  kOriginMismatch,
  kMalformedLeaf,  // the leaf is not a log entry at all
  kLeafMismatch,   // a log entry, of another certificate
  // A chain.
  kEmptyChain,
  kMissingHead,       // does not begin at sequence 0
  kSequenceGap,       // certificates between two neighbours are missing
  kSequenceRepeated,  // repeated or out of order
  kSequenceMismatch,  // the export's number differs from the signed one
  kPreviousLeafMismatch,
  kAfterClosing,    // a certificate behind a tenant-closed, which ends a log
  kTruncated,       // fewer certificates than expected, or another last leaf
  kUnexpectedTail,  // more certificates than expected
  // Checkpoints and proofs.
  kMalformedCheckpoint,
  kCheckpointSignature,  // no signature of the key, or one that does not verify
  kCheckpointMismatch,   // another origin, size or root than the log's
  kMalformedProof,
  kProofMismatch,
  kMalformedBundle,
  kBundleMismatch,
  kWitnessQuorum,  // too few cosignatures, or a bad one
  kInconsistent,   // two checkpoints of one log that fork, or the later one shrinks
  // Exports and what comes with them.
  kMalformedArchive,
  kMissingFile,
  kUnexpectedFile,
  kTileMismatch,
  kKeyListMismatch,      // keys.txt is not what the hand-overs say
  kSummaryMismatch,      // a summary is not what the certificates say
  kReportMismatch,       // neither is the report
  kDestructionMismatch,  // keys destroyed of a range in which nothing was erased
  kRestorationMismatch,  // tokens taken out of a copy after which nothing was erased
  kReceiptMismatch,
  kDigestMismatch,  // the tokens given lead to another state
};
// A stable word for machines: "bad-signature", "sequence-gap", ...; "verified" for kNone.
absl::string_view Name(Failure failure);

// Groups of failures, each with an exit code of lethe-verify.
enum class FailureClass : uint8_t {
  kNone,
  kMalformed,
  kSignature,
  kChain,
  kFork,  // the log forked or shrank
  kOwn,   // what the caller has says otherwise: a receipt, tokens
};
FailureClass ClassOf(Failure failure);

struct CertificateResult {
  Failure failure = Failure::kNone;
  std::string message;  // one English sentence without content of the certificate
  // Set when nothing failed.
  std::optional<CertificateBody> body;
  std::string id;
  Digest leaf_hash{};  // recomputed from envelope and pinned key

  bool ok() const { return failure == Failure::kNone; }
};

// `leaf`: compared with the recomputed one when given. A hand-over to the key itself is a
// kBadStatement. `origin`: when absent the key's name, which
// is the origin by the rules of the format.
CertificateResult VerifyCertificate(absl::string_view envelope,
                                    std::optional<absl::string_view> leaf,
                                    const VerificationKey& key,
                                    std::optional<absl::string_view> origin = std::nullopt);

struct ChainEntry {
  absl::string_view envelope;
  absl::string_view leaf;
  std::optional<uint64_t> sequence;  // as the export says; must be the signed one
};

// What the caller knows from elsewhere. A missing tail shows only against one of these.
struct ChainExpectations {
  std::optional<std::string> origin;
  std::optional<uint64_t> size;
  std::optional<Digest> last_leaf_hash;
};

struct ChainResult {
  Failure failure = Failure::kNone;
  std::string message;
  size_t failed_index = 0;  // position in the input; meaningful with a failure
  uint64_t verified = 0;    // entries accepted before the failure
  Digest last_leaf_hash{};  // of the last accepted entry
  Digest root{};            // RFC 6962 root over the accepted leaves

  bool ok() const { return failure == Failure::kNone; }
};

// A whole log from sequence 0, in order; hand-overs of the key are followed. Nothing may be behind
// a tenant-closed.
ChainResult VerifyChain(std::span<const ChainEntry> entries,
                        const VerificationKey& key,
                        const ChainExpectations& expectations = {});

// As VerifyChain, an entry at a time, for logs that do not fit into memory. A key-handover
// certificate, once verified, changes the key: what follows must be signed by the next one.
class ChainVerifier {
 public:
  // `key`: of the certificate at sequence 0.
  ChainVerifier(VerificationKey key, ChainExpectations expectations);

  // The certificate's own result; a failure is final and later calls repeat it.
  CertificateResult Add(const ChainEntry& entry);
  // After the last entry.
  ChainResult Finish();

  struct KeyPeriod {
    uint64_t first_sequence;  // of the first certificate that it signs
    VerificationKey key;
  };
  // The keys so far, in order; at least one. The last one signs the next certificate, and the
  // checkpoint of the log as it stands.
  const std::vector<KeyPeriod>& keys() const { return keys_; }
  const VerificationKey& key() const { return keys_.back().key; }

 private:
  CertificateResult Fail(Failure failure, std::string message);

  std::vector<KeyPeriod> keys_;
  ChainExpectations expectations_;
  CompactRange range_;
  ChainResult result_;
  bool closed_ = false;  // by the last certificate
};

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_VERIFY_H_
