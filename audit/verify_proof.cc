#include "audit/verify_proof.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "audit/dsse.h"
#include "audit/encoding.h"
#include "audit/json.h"
#include "audit/sigstore_bundle.h"
#include "audit/tlog_proof.h"
#include "audit/tree_proof.h"

namespace lethe::audit {
namespace {

constexpr size_t kMaxBundleBytes = size_t{4} << 20;

ProofResult Failed(Failure failure, std::string message) {
  ProofResult result;
  result.failure = failure;
  result.message = std::move(message);
  return result;
}

// The member at the end of a path of names, or null.
const Json* At(const Json& json, std::initializer_list<absl::string_view> names) {
  const Json* at = &json;
  for (const absl::string_view name : names) {
    at = at == nullptr ? nullptr : at->Find(name);
  }
  return at;
}

// What a bundle says of index, proof and checkpoint. The rest of it is compared later, whole.
std::optional<ParsedTlogProof> ProofInBundle(absl::string_view text) {
  JsonLimits limits;
  limits.max_bytes = kMaxBundleBytes;
  const absl::StatusOr<Json> json = ParseJson(text, JsonForm::kCanonical, limits);
  const Json* entries = json.ok() ? At(*json, {"verificationMaterial", "tlogEntries"}) : nullptr;
  if (entries == nullptr || entries->as_array() == nullptr || entries->as_array()->size() != 1) {
    return std::nullopt;
  }
  const Json& entry = entries->as_array()->front();
  const Json* index = At(entry, {"inclusionProof", "logIndex"});
  const Json* hashes = At(entry, {"inclusionProof", "hashes"});
  const Json* note = At(entry, {"inclusionProof", "checkpoint", "envelope"});
  ParsedTlogProof proof;
  if (index == nullptr || index->as_string() == nullptr ||
      !absl::SimpleAtoi(*index->as_string(), &proof.index) || note == nullptr ||
      note->as_string() == nullptr) {
    return std::nullopt;
  }
  proof.checkpoint_note = *note->as_string();
  if (hashes == nullptr) return proof;  // an only leaf
  if (hashes->as_array() == nullptr || hashes->as_array()->size() > kMaxProofHashes) {
    return std::nullopt;
  }
  for (const Json& hash : *hashes->as_array()) {
    if (hash.as_string() == nullptr) return std::nullopt;
    const absl::StatusOr<Digest> digest = DecodeBase64Digest(*hash.as_string());
    if (!digest.ok()) return std::nullopt;
    proof.proof.push_back(*digest);
  }
  return proof;
}

}  // namespace

ProofResult VerifySignedCheckpoint(absl::string_view note,
                                   std::span<const VerificationKey> keys,
                                   const WitnessPolicy* policy) {
  CheckpointResult checked;
  size_t at = keys.size();
  while (at > 0) {
    --at;
    checked = VerifyCheckpoint(note, keys[at]);
    if (checked.ok()) break;
  }
  if (!checked.ok()) return Failed(checked.failure, checked.message);
  ProofResult result;
  result.checkpoint = std::move(checked.checkpoint);
  result.key = at;
  result.message = "Verified.";
  if (policy == nullptr) return result;
  QuorumResult quorum = CheckQuorum(checked.note, *policy);
  if (!quorum.ok()) return Failed(quorum.failure, quorum.message);
  result.cosignatures = std::move(quorum.cosignatures);
  return result;
}

ProofResult VerifyCertificateProof(absl::string_view proof,
                                   absl::string_view envelope,
                                   const CertificateResult& certificate,
                                   const VerificationKey& certificate_key,
                                   std::span<const VerificationKey> keys,
                                   const WitnessPolicy* policy) {
  const bool is_bundle = absl::StartsWith(proof, "{");
  std::optional<ParsedTlogProof> parsed;
  if (is_bundle) {
    parsed = ProofInBundle(proof);
    if (!parsed.has_value()) return Failed(Failure::kMalformedBundle, "The bundle is malformed.");
  } else {
    absl::StatusOr<ParsedTlogProof> read = ParseTlogProof(proof);
    if (!read.ok()) {
      return Failed(Failure::kMalformedProof,
                    absl::StrCat("The proof is malformed: ", read.status().message(), "."));
    }
    parsed = *std::move(read);
  }
  ProofResult result = VerifySignedCheckpoint(parsed->checkpoint_note, keys, policy);
  if (!result.ok()) return result;
  const Checkpoint& checkpoint = result.checkpoint;
  if (parsed->index != certificate.body->sequence) {
    return Failed(is_bundle ? Failure::kBundleMismatch : Failure::kProofMismatch,
                  "The proof is that of another index.");
  }
  if (!VerifyInclusion(parsed->index, checkpoint.size, certificate.leaf_hash, parsed->proof,
                       checkpoint.root)
           .ok()) {
    return Failed(is_bundle ? Failure::kBundleMismatch : Failure::kProofMismatch,
                  "The proof does not lead from this certificate to the checkpoint's root.");
  }
  if (certificate.body->kind == CertificateKind::kTenantClosed &&
      checkpoint.size != parsed->index + 1) {
    return Failed(Failure::kAfterClosing,
                  absl::StrCat("It closes the log, which goes on to ", checkpoint.size,
                               " certificates in the checkpoint."));
  }
  const auto certified = std::find_if(keys.begin(), keys.end(), [&](const VerificationKey& key) {
    return key.vkey() == certificate_key.vkey();
  });
  const auto signer = keys.begin() + static_cast<ptrdiff_t>(result.key);
  if (certified != keys.end() &&
      (signer < certified || (certificate.body->handover.has_value() && signer == certified))) {
    return Failed(Failure::kCheckpointSignature,
                  "The checkpoint is signed by a key that was retired before this size.");
  }
  if (!is_bundle) return result;
  const absl::StatusOr<Envelope> opened = ParseEnvelope(envelope);
  absl::Status same = opened.status();
  if (opened.ok()) {
    same = CheckSigstoreBundle(
        proof,
        {envelope, LeafBytes(opened->payload, opened->signature, certificate_key), parsed->index,
         checkpoint.size, checkpoint.root, parsed->proof, parsed->checkpoint_note, *signer});
  }
  if (same.ok()) return result;
  return Failed(
      absl::IsInvalidArgument(same) ? Failure::kMalformedBundle : Failure::kBundleMismatch,
      absl::StrCat("The bundle is not this certificate's: ", same.message(), "."));
}

ProofResult VerifyExtension(const Checkpoint& older,
                            size_t older_key,
                            const Checkpoint& newer,
                            size_t newer_key,
                            std::optional<absl::string_view> proof) {
  if (older.origin != newer.origin) {
    return Failed(Failure::kOriginMismatch, "The checkpoints are of two logs.");
  }
  if (older.size == 0) {
    return Failed(Failure::kInconsistent,
                  "The older checkpoint is of an empty log, which shows nothing.");
  }
  if (newer.size < older.size) {
    return Failed(Failure::kInconsistent, absl::StrCat("The log shrank: it had ", older.size,
                                                       " certificates and has ", newer.size, "."));
  }
  if (newer.size == older.size && newer.root != older.root) {
    return Failed(Failure::kInconsistent,
                  absl::StrCat("The log forked: two roots for ", older.size, " certificates."));
  }
  if (newer_key < older_key || (newer.size == older.size && newer_key != older_key)) {
    return Failed(Failure::kCheckpointSignature,
                  "The newer checkpoint is signed by a key that was retired before this size.");
  }
  std::vector<Digest> hashes;
  absl::string_view text = proof.value_or("");
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const absl::StatusOr<Digest> hash = DecodeBase64Digest(text.substr(0, end));
    if (end == absl::string_view::npos || !hash.ok() || hashes.size() == 2 * kMaxProofHashes) {
      return Failed(Failure::kMalformedProof, "The proof is not a base64 hash a line.");
    }
    hashes.push_back(*hash);
    text.remove_prefix(end + 1);
  }
  if (!VerifyConsistency(older.size, newer.size, older.root, newer.root, hashes).ok()) {
    return Failed(Failure::kProofMismatch,
                  "The proof does not show that the newer checkpoint extends the older one.");
  }
  ProofResult result;
  result.message = "Verified.";
  result.checkpoint = newer;
  return result;
}

}  // namespace lethe::audit
