// One certificate: a signed statement about one change of one memory (or of a whole log), and the
// entry that stands for it in the tenant's log.
//
//     statement  in-toto Statement v1, predicateType urn:lethe:memory-state-change:v1, canonical
//     JSON envelope   DSSE over the statement (dsse.h);          id        = hex SHA256(envelope)
//     leaf       Rekor v2 "dsse" 0.0.2 body;                leaf hash = SHA256(00 || leaf)
//
// Everything in a certificate is public for ever: no token ids, subjects, names of memories,
// weights or text may enter it. docs/certificate_format.md is the byte-exact description. Threads:
// safe.
#ifndef LETHE_AUDIT_CERTIFICATE_H_
#define LETHE_AUDIT_CERTIFICATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/hash.h"
#include "audit/signer.h"

namespace lethe::audit {

inline constexpr absl::string_view kStatementType = "https://in-toto.io/Statement/v1";
inline constexpr absl::string_view kPredicateType = "urn:lethe:memory-state-change:v1";
inline constexpr size_t kMaxLeafBytes = 65535;
inline constexpr size_t kMaxStores = 64;
inline constexpr size_t kMaxExceptions = 64;
inline constexpr size_t kMaxEpochs = 64;

enum class CertificateKind : uint8_t {
  kForget,        // tokens erased on request
  kEdit,          // tokens replaced by others with the same ids
  kEvict,         // tokens taken out to keep a budget
  kShredded,      // keys of earlier erasures destroyed
  kRetrainCheck,  // a cold refit compared with the served state; changes nothing
  kTenantClosed,  // the tenant was removed with all its memories
  kKeyHandover,   // the log's key changed: everything after this is signed by the next one
  kRestored,      // the tenant went on from a copy, which the log after the copy was applied to
};
// "forget", "edit", "evict", "shredded", "retrain-check", "tenant-closed", "key-handover",
// "restored".
absl::string_view Name(CertificateKind kind);

// How strongly the state after the change is known to be the optimum.
enum class VerdictClass : uint8_t { kBitIdentical, kProven, kBounded, kUncertified };
// "bit-identical", "proven", "bounded", "uncertified".
absl::string_view Name(VerdictClass verdict);

struct PartitionSizes {
  uint64_t margin = 0;   // S
  uint64_t error = 0;    // E
  uint64_t reserve = 0;  // R

  uint64_t total() const { return margin + error + reserve; }
  friend bool operator==(const PartitionSizes&, const PartitionSizes&) = default;
};

// What the checks of the state after the change measured. +infinity: not bounded. No NaN; none but
// `slack` is negative.
struct Residuals {
  double kkt_residual = 0.0;  // largest violation that the independent check found
  double duality_gap = 0.0;
  double slack = 0.0;           // lower bound on the distance to a change of the partition
  double weight_bound = 0.0;    // |a - a*|_2 before rounding
  double decision_bound = 0.0;  // on the decision function
  // Proven upper bounds: on the duality gap of the published weights, and on every number of a
  // readout in units of the largest |value| with weight. Both or neither; an edit and an eviction
  // have them.
  std::optional<double> gap_bound;
  std::optional<double> readout_bound;
  double condition = 0.0;       // upper bound, of the margin Gram matrix
  uint32_t precision_bits = 0;  // rung that decided the state; 0: exact by definition

  friend bool operator==(const Residuals&, const Residuals&) = default;
};

// Against a memory solved from scratch. bits_equal requires deviation == 0.
struct RefitComparison {
  double deviation = 0.0;  // largest |a_i - a_i'|
  bool bits_equal = false;

  friend bool operator==(const RefitComparison&, const RefitComparison&) = default;
};

// What an eviction took. Its scope is the same in each and stands in the statement: at that time
// (kScopeNow) no readout and no label of a group with weight changed; from then on (kScopeLater)
// changes are measured against the tokens retained.
struct Selection {
  uint64_t budget = 0;    // at least 1
  uint64_t reserve = 0;   // taken: weight 0, and no token with weight has the key
  uint64_t surplus = 0;   // taken: copies of a key with weight that its group could do without
  uint64_t retained = 0;  // above the budget when the rest carries weight

  friend bool operator==(const Selection&, const Selection&) = default;
};
inline constexpr absl::string_view kScopeNow = "weighted-groups-and-readouts-unchanged";
inline constexpr absl::string_view kScopeLater = "measured-against-retained-tokens";

struct StateChange {
  std::string memory_uid;  // 32 hex digits (RandomUid), never the name
  Digest config{};         // ConfigDigest
  PartitionSizes partition_before;
  PartitionSizes partition_after;
  Digest root_before{};  // StateDigest over blinded leaves
  Digest root_after{};
  VerdictClass verdict = VerdictClass::kUncertified;
  Residuals residuals;
  std::optional<RefitComparison> refit;  // present exactly when a refit was run
  std::optional<Selection> selection;    // present exactly in an eviction

  friend bool operator==(const StateChange&, const StateChange&) = default;
};

struct ErasureCounts {
  uint64_t matched = 0;  // erased + held
  uint64_t erased = 0;
  uint64_t not_found = 0;
  uint64_t already_erased = 0;
  uint64_t held = 0;

  friend bool operator==(const ErasureCounts&, const ErasureCounts&) = default;
};

// What is claimed of one place that held the erased bytes, as it was when the certificate was
// signed. stores.h has the words of the server.
struct StoreErasure {
  std::string store;     // 1 to 64 of [a-z0-9._-], distinct
  std::string level;     // 1 to 64 of [a-z0-9-]
  std::string evidence;  // at most 1,024 bytes of UTF-8 without control characters

  friend bool operator==(const StoreErasure&, const StoreErasure&) = default;
};

// Signed by the key that ends.
struct KeyHandover {
  std::string next;  // VerificationKey::vkey() of the next key: same name, another key

  friend bool operator==(const KeyHandover&, const KeyHandover&) = default;
};

// Sequences first, ..., last.
struct SequenceSpan {
  uint64_t first = 0;
  uint64_t last = 0;  // not below first

  friend bool operator==(const SequenceSpan&, const SequenceSpan&) = default;
};

// Keys that are no more. At least one of the two: erasures, epochs.
struct KeyDestruction {
  // The data keys of every forget, edit and evict certificate in the span are destroyed. Below this
  // certificate. Absent when only key-encryption keys were destroyed.
  std::optional<SequenceSpan> erasures;
  // Of the key-encryption keys that were destroyed, so that older copies of the data keys wrapped
  // under them are of no use. Increasing, at most kMaxEpochs.
  std::vector<uint64_t> epochs;
  // Data keys that were live before this; 0 without erasures, and when all had been destroyed by a
  // run that ended before it could say so.
  uint64_t keys = 0;

  friend bool operator==(const KeyDestruction&, const KeyDestruction&) = default;
};

// A copy was put back, and to it every certificate that came after it: size + reapplied is the
// sequence of this certificate.
struct Restoration {
  uint64_t size = 0;       // of the log in the copy
  uint64_t reapplied = 0;  // certificates after it that were put back, from size on
  // Tokens of the copy taken out again before anything was served; 0 where nothing was erased after
  // the copy.
  uint64_t removed = 0;

  friend bool operator==(const Restoration&, const Restoration&) = default;
};

struct CertificateBody {
  std::string origin;  // the name of the log and of its key
  uint64_t sequence = 0;
  std::optional<Digest> previous_leaf_hash;  // absent exactly when sequence is 0
  CertificateKind kind = CertificateKind::kForget;
  Digest request_commitment{};               // commitments.h
  std::optional<Digest> subject_commitment;  // when the request named a subject
  std::string build;                         // 1 to 256 printable ASCII characters
  std::string time;  // RFC 3339, UTC: 2026-01-31T12:00:00Z or with a fraction
  // Present for forget, edit, evict and retrain-check; absent for the other kinds.
  std::optional<StateChange> change;
  std::optional<KeyHandover> handover;        // present exactly in a key-handover
  std::optional<KeyDestruction> destruction;  // present exactly in a shredded
  std::optional<Restoration> restoration;     // present exactly in a restored
  ErasureCounts counts;
  std::vector<StoreErasure> stores;     // at most kMaxStores
  std::vector<std::string> exceptions;  // at most kMaxExceptions, each as evidence and not empty

  friend bool operator==(const CertificateBody&, const CertificateBody&) = default;
};

// The rules of section 3 of the format: shapes, limits, and that the numbers agree with each other
// (matched = erased + held; forget and evict shrink the partition by `erased`; an eviction takes no
// error token and no more margin tokens than surplus; bit-identical exactly with an equal refit; a
// hand-over counts nothing; a destruction is of what is before it; ...). INVALID_ARGUMENT names the
// field.
absl::Status ValidateBody(const CertificateBody& body);

// The statement's canonical text. INVALID_ARGUMENT as ValidateBody.
absl::StatusOr<std::string> SerializeStatement(const CertificateBody& body);
// INVALID_ARGUMENT for any text that SerializeStatement would not have written.
absl::StatusOr<CertificateBody> ParseStatement(absl::string_view text);

struct SignedCertificate {
  CertificateBody body;
  std::string envelope;
  std::string id;  // hex SHA256(envelope)
  std::string leaf;
  Digest leaf_hash{};  // the next certificate's previous_leaf_hash
};

// Requires the signer's name to be body.origin (INVALID_ARGUMENT). What it returns has been
// verified from its own bytes with the signer's public key (INTERNAL when that fails).
absl::StatusOr<SignedCertificate> BuildCertificate(const CertificateBody& body,
                                                   const Signer& signer);

// The log entry of an envelope with this payload and signature: a function of public bytes, so that
// a verifier recomputes it.
std::string LeafBytes(absl::string_view payload,
                      absl::string_view signature,
                      const VerificationKey& key);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_CERTIFICATE_H_
