#include "audit/verify.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/dsse.h"
#include "audit/encoding.h"
#include "audit/json.h"
#include "audit/json_reader.h"
#include "audit/merkle.h"
#include "audit/statement.h"
#include "core/base/check.h"

namespace lethe::audit {
namespace {

CertificateResult Failed(Failure failure, std::string message) {
  CertificateResult result;
  result.failure = failure;
  result.message = std::move(message);
  return result;
}

// Whether these bytes have the shape of a log entry, whatever certificate they stand for.
absl::Status CheckLeafShape(absl::string_view leaf) {
  JsonLimits limits;
  limits.max_bytes = kMaxLeafBytes;
  const absl::StatusOr<Json> json = ParseJson(leaf, JsonForm::kCanonical, limits);
  if (!json.ok()) return json.status();
  JsonReader reader(*json, "");
  reader.Expect("apiVersion", "0.0.2");
  reader.Expect("kind", "dsse");
  JsonReader spec = reader.Child("spec");
  JsonReader dsse = spec.Child("dsseV002");
  JsonReader hash = dsse.Child("payloadHash");
  hash.Expect("algorithm", "SHA2_256");
  if (hash.Base64Bytes("digest").size() != 32) hash.Fail("digest", "not 32 bytes");
  dsse.Adopt(hash);
  const Json::Array& signatures = dsse.Array("signatures");
  if (signatures.size() != 1) {
    dsse.Fail("signatures", "exactly one is required");
  } else {
    JsonReader signature(signatures[0], "spec.dsseV002.signatures[0]");
    if (signature.Base64Bytes("content").size() != 64) signature.Fail("content", "not 64 bytes");
    JsonReader verifier = signature.Child("verifier");
    verifier.Expect("keyDetails", "PKIX_ED25519");
    JsonReader public_key = verifier.Child("publicKey");
    if (public_key.Base64Bytes("rawBytes").size() != 44) {
      public_key.Fail("rawBytes", "not 44 bytes");
    }
    verifier.Adopt(public_key);
    signature.Adopt(verifier);
    dsse.Adopt(signature);
  }
  spec.Adopt(dsse);
  reader.Adopt(spec);
  return reader.Finish();
}

}  // namespace

absl::string_view Name(Failure failure) {
  switch (failure) {
    case Failure::kNone:
      return "verified";
    case Failure::kMalformedEnvelope:
      return "malformed-envelope";
    case Failure::kWrongPayloadType:
      return "wrong-payload-type";
    case Failure::kUnknownKey:
      return "unknown-key";
    case Failure::kBadSignature:
      return "bad-signature";
    case Failure::kNonCanonicalPayload:
      return "non-canonical-payload";
    case Failure::kBadStatement:
      return "bad-statement";
    case Failure::kOriginMismatch:
      return "origin-mismatch";
    case Failure::kMalformedLeaf:
      return "malformed-leaf";
    case Failure::kLeafMismatch:
      return "leaf-mismatch";
    case Failure::kEmptyChain:
      return "empty-chain";
    case Failure::kMissingHead:
      return "missing-head";
    case Failure::kSequenceGap:
      return "sequence-gap";
    case Failure::kSequenceRepeated:
      return "sequence-repeated";
    case Failure::kSequenceMismatch:
      return "sequence-mismatch";
    case Failure::kPreviousLeafMismatch:
      return "previous-leaf-mismatch";
    case Failure::kAfterClosing:
      return "after-closing";
    case Failure::kTruncated:
      return "truncated";
    case Failure::kUnexpectedTail:
      return "unexpected-tail";
    case Failure::kMalformedCheckpoint:
      return "malformed-checkpoint";
    case Failure::kCheckpointSignature:
      return "checkpoint-signature";
    case Failure::kCheckpointMismatch:
      return "checkpoint-mismatch";
    case Failure::kMalformedProof:
      return "malformed-proof";
    case Failure::kProofMismatch:
      return "proof-mismatch";
    case Failure::kMalformedBundle:
      return "malformed-bundle";
    case Failure::kBundleMismatch:
      return "bundle-mismatch";
    case Failure::kWitnessQuorum:
      return "witness-quorum";
    case Failure::kInconsistent:
      return "inconsistent";
    case Failure::kMalformedArchive:
      return "malformed-archive";
    case Failure::kMissingFile:
      return "missing-file";
    case Failure::kUnexpectedFile:
      return "unexpected-file";
    case Failure::kTileMismatch:
      return "tile-mismatch";
    case Failure::kKeyListMismatch:
      return "key-list-mismatch";
    case Failure::kSummaryMismatch:
      return "summary-mismatch";
    case Failure::kReportMismatch:
      return "report-mismatch";
    case Failure::kDestructionMismatch:
      return "destruction-mismatch";
    case Failure::kRestorationMismatch:
      return "restoration-mismatch";
    case Failure::kReceiptMismatch:
      return "receipt-mismatch";
    case Failure::kDigestMismatch:
      return "digest-mismatch";
  }
  LETHE_CHECK(false);
}

FailureClass ClassOf(Failure failure) {
  switch (failure) {
    case Failure::kNone:
      return FailureClass::kNone;
    case Failure::kMalformedEnvelope:
    case Failure::kWrongPayloadType:
    case Failure::kNonCanonicalPayload:
    case Failure::kBadStatement:
    case Failure::kMalformedLeaf:
    case Failure::kMalformedCheckpoint:
    case Failure::kMalformedProof:
    case Failure::kMalformedBundle:
    case Failure::kMalformedArchive:
      return FailureClass::kMalformed;
    case Failure::kUnknownKey:
    case Failure::kBadSignature:
    case Failure::kCheckpointSignature:
    case Failure::kWitnessQuorum:
      return FailureClass::kSignature;
    case Failure::kOriginMismatch:
    case Failure::kLeafMismatch:
    case Failure::kEmptyChain:
    case Failure::kMissingHead:
    case Failure::kSequenceGap:
    case Failure::kSequenceRepeated:
    case Failure::kSequenceMismatch:
    case Failure::kPreviousLeafMismatch:
    case Failure::kAfterClosing:
    case Failure::kTruncated:
    case Failure::kUnexpectedTail:
    case Failure::kCheckpointMismatch:
    case Failure::kProofMismatch:
    case Failure::kBundleMismatch:
    case Failure::kMissingFile:
    case Failure::kUnexpectedFile:
    case Failure::kTileMismatch:
    case Failure::kKeyListMismatch:
    case Failure::kSummaryMismatch:
    case Failure::kReportMismatch:
    case Failure::kDestructionMismatch:
    case Failure::kRestorationMismatch:
      return FailureClass::kChain;
    case Failure::kInconsistent:
      return FailureClass::kFork;
    case Failure::kReceiptMismatch:
    case Failure::kDigestMismatch:
      return FailureClass::kOwn;
  }
  LETHE_CHECK(false);
}

CertificateResult VerifyCertificate(absl::string_view envelope,
                                    std::optional<absl::string_view> leaf,
                                    const VerificationKey& key,
                                    std::optional<absl::string_view> origin) {
  const absl::StatusOr<Envelope> parsed = ParseEnvelope(envelope);
  if (!parsed.ok()) {
    return Failed(Failure::kMalformedEnvelope,
                  absl::StrCat("The envelope is malformed: ", parsed.status().message(), "."));
  }
  if (parsed->payload_type != kInTotoPayloadType) {
    return Failed(Failure::kWrongPayloadType, "The payload type is not in-toto's.");
  }
  if (parsed->keyid != key.short_name()) {
    return Failed(Failure::kUnknownKey, "The envelope names another key than the pinned one.");
  }
  if (!VerifyEnvelopeSignature(*parsed, key)) {
    return Failed(Failure::kBadSignature,
                  "The signature is not the pinned key's over this payload.");
  }
  const absl::StatusOr<Json> json = ParseJson(parsed->payload, JsonForm::kCanonical);
  if (!json.ok()) {
    return Failed(
        Failure::kNonCanonicalPayload,
        absl::StrCat("The signed payload is not canonical JSON: ", json.status().message(), "."));
  }
  absl::StatusOr<CertificateBody> body = StatementFromJson(*json);
  if (!body.ok()) {
    return Failed(
        Failure::kBadStatement,
        absl::StrCat("The signed statement breaks a rule: ", body.status().message(), "."));
  }
  if (body->handover.has_value() && body->handover->next == key.vkey()) {
    return Failed(Failure::kBadStatement,
                  "The signed statement breaks a rule: handover.next: the key that signed it.");
  }
  if (body->origin != key.name() || body->origin != origin.value_or(key.name())) {
    return Failed(Failure::kOriginMismatch, "The certificate belongs to another log.");
  }
  const std::string expected_leaf = LeafBytes(parsed->payload, parsed->signature, key);
  if (leaf.has_value() && *leaf != expected_leaf) {
    if (const absl::Status shape = CheckLeafShape(*leaf); !shape.ok()) {
      return Failed(Failure::kMalformedLeaf,
                    absl::StrCat("The leaf is malformed: ", shape.message(), "."));
    }
    return Failed(Failure::kLeafMismatch, "The leaf is the entry of another certificate.");
  }
  CertificateResult result;
  result.message = "Verified.";
  result.body = *std::move(body);
  result.id = Hex(Sha256(envelope));
  result.leaf_hash = LeafHash(expected_leaf);
  return result;
}

ChainVerifier::ChainVerifier(VerificationKey key, ChainExpectations expectations)
    : keys_{{0, std::move(key)}}, expectations_(std::move(expectations)) {}

CertificateResult ChainVerifier::Fail(Failure failure, std::string message) {
  result_.failure = failure;
  result_.message = std::move(message);
  return Failed(result_.failure, result_.message);
}

CertificateResult ChainVerifier::Add(const ChainEntry& entry) {
  if (!result_.ok()) return Failed(result_.failure, result_.message);
  result_.failed_index = result_.verified;
  if (expectations_.size.has_value() && result_.verified >= *expectations_.size) {
    return Fail(Failure::kUnexpectedTail,
                absl::StrCat("More certificates than the expected ", *expectations_.size, "."));
  }
  std::optional<absl::string_view> origin;
  if (expectations_.origin.has_value()) origin = *expectations_.origin;
  CertificateResult certificate = VerifyCertificate(entry.envelope, entry.leaf, key(), origin);
  if (!certificate.ok()) return Fail(certificate.failure, std::move(certificate.message));

  const uint64_t sequence = certificate.body->sequence;
  const uint64_t next = result_.verified;
  if (entry.sequence.has_value() && *entry.sequence != sequence) {
    return Fail(Failure::kSequenceMismatch, absl::StrCat("The export calls it ", *entry.sequence,
                                                         ", it is signed as ", sequence, "."));
  }
  if (sequence > next) {
    return Fail(next == 0 ? Failure::kMissingHead : Failure::kSequenceGap,
                absl::StrCat("Sequence ", sequence, " where ", next, " must be."));
  }
  if (sequence < next) {
    return Fail(Failure::kSequenceRepeated,
                absl::StrCat("Sequence ", sequence, " again, where ", next, " must be."));
  }
  if (next > 0 && certificate.body->previous_leaf_hash != result_.last_leaf_hash) {
    return Fail(Failure::kPreviousLeafMismatch,
                absl::StrCat("Certificate ", sequence, " names another predecessor."));
  }
  if (closed_) {
    return Fail(Failure::kAfterClosing,
                absl::StrCat("Certificate ", sequence, " is behind the one that closes the log."));
  }
  if (certificate.body->handover.has_value() &&
      std::any_of(keys_.begin(), keys_.end(), [&](const KeyPeriod& period) {
        return period.key.vkey() == certificate.body->handover->next;
      })) {
    return Fail(Failure::kBadStatement, "The key handed over to was the log's before.");
  }
  range_.Append(certificate.leaf_hash);
  result_.last_leaf_hash = certificate.leaf_hash;
  ++result_.verified;
  closed_ = certificate.body->kind == CertificateKind::kTenantClosed;
  if (certificate.body->handover.has_value()) {
    absl::StatusOr<VerificationKey> successor =
        VerificationKey::Parse(certificate.body->handover->next);
    LETHE_CHECK(successor.ok());  // a rule of the statement
    keys_.push_back({result_.verified, *std::move(successor)});
  }
  return certificate;
}

ChainResult ChainVerifier::Finish() {
  result_.root = range_.Root();
  if (!result_.ok()) return result_;
  result_.failed_index = result_.verified;
  const bool other_end = expectations_.last_leaf_hash.has_value() &&
                         *expectations_.last_leaf_hash != result_.last_leaf_hash;
  if (result_.verified == 0) {
    Fail(Failure::kEmptyChain, "There is no certificate to verify.");
  } else if (result_.verified < expectations_.size.value_or(0)) {
    Fail(Failure::kTruncated,
         absl::StrCat("The chain ends after ", result_.verified, " certificates, expected are ",
                      *expectations_.size, "."));
  } else if (other_end) {
    Fail(Failure::kTruncated, "The chain ends at another leaf than expected.");
  } else {
    result_.message = "Verified.";
  }
  return result_;
}

ChainResult VerifyChain(std::span<const ChainEntry> entries,
                        const VerificationKey& key,
                        const ChainExpectations& expectations) {
  ChainVerifier verifier(key, expectations);
  for (const ChainEntry& entry : entries) {
    if (!verifier.Add(entry).ok()) break;
  }
  return verifier.Finish();
}

}  // namespace lethe::audit
