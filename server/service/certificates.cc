#include "server/service/certificates.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "audit/checkpoint.h"
#include "audit/dsse.h"
#include "audit/encoding.h"
#include "audit/merkle.h"
#include "audit/stores.h"
#include "audit/tlog_proof.h"
#include "audit/tree_proof.h"
#include "audit/verify.h"
#include "audit/vkey.h"
#include "core/base/status_macros.h"

namespace lethe::service {
namespace {

// Rounding can leave a sum of products of non-negative factors at -0.0 or NaN-free tiny negatives.
double NotNegative(double value) { return value > 0.0 ? value : 0.0; }

audit::StoreErasure Claim(absl::string_view store,
                          absl::string_view level,
                          absl::string_view evidence) {
  return {
      .store = std::string(store), .level = std::string(level), .evidence = std::string(evidence)};
}

// What holds once the keys are destroyed, of every place but the keys themselves.
std::vector<audit::StoreErasure> StoresWithoutKeys() {
  return {
      Claim(audit::kStoreTokens, audit::kLevelRowsDeleted, "no row is left that they sealed"),
      Claim(audit::kStoreWriteAheadLog, audit::kLevelTruncated, ""),
      Claim(audit::kStoreBackups, audit::kLevelUnreadableWithoutKey,
            "rows in copies of the data; keyed hashes of ids and subjects in them, and copies of"
            " the keys, are outside of this"),
      Claim(audit::kStoreExports, audit::kLevelNoTokenContent, ""),
      Claim(audit::kStoreMemory, audit::kLevelNotClaimed, "")};
}

}  // namespace

std::string FormatMicros(int64_t micros_since_1970) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::FromUnixMicros(micros_since_1970),
                          absl::UTCTimeZone());
}

audit::CertificateBody BaseBody(const std::string& origin,
                                const store::LogHead& head,
                                audit::CertificateKind kind,
                                int64_t time_micros) {
  audit::CertificateBody body;
  body.origin = origin;
  body.sequence = head.count;
  body.previous_leaf_hash = head.leaf_hash;
  body.kind = kind;
  body.build = absl::StrCat("lethed ", LETHE_VERSION);
  body.time = FormatMicros(time_micros);
  return body;
}

std::vector<audit::StoreErasure> StoresOfErasure() {
  return {Claim(audit::kStoreTokens, audit::kLevelRowsDeleted,
                "deleted in one transaction with this certificate"),
          Claim(audit::kStoreKeys, audit::kLevelKeyPending,
                "destroyed before the request is answered; a shredded certificate follows"),
          Claim(audit::kStoreExports, audit::kLevelNoTokenContent, "")};
}

std::vector<audit::StoreErasure> StoresOfDestruction(const store::KeysDestroyed& destroyed,
                                                     bool copies_ended) {
  std::vector<audit::StoreErasure> stores = StoresWithoutKeys();
  std::string evidence = absl::StrCat(destroyed.destroyed + destroyed.already_destroyed,
                                      " slots overwritten and read back; ", destroyed.bytes_read,
                                      " bytes of the file of keys searched");
  if (copies_ended) {
    absl::StrAppend(&evidence,
                    "; copies found there stay, and the key-encryption key that they are"
                    " wrapped under is destroyed");
  }
  stores.insert(stores.begin() + 1, Claim(audit::kStoreKeys, audit::kLevelKeyDestroyed, evidence));
  return stores;
}

std::vector<audit::StoreErasure> StoresOfEpochs() {
  return {
      Claim(audit::kStoreKeys, audit::kLevelKeyDestroyed,
            "key-encryption keys of earlier epochs destroyed and what lives wrapped anew: without"
            " them an earlier copy of the file of keys cannot be unwrapped")};
}

std::vector<audit::StoreErasure> StoresOfClosing() {
  std::vector<audit::StoreErasure> stores = StoresWithoutKeys();
  stores.insert(
      stores.begin() + 1,
      Claim(audit::kStoreKeys, audit::kLevelKeyDestroyed,
            "every key-encryption key destroyed, every slot overwritten, the files removed"));
  return stores;
}

std::vector<audit::StoreErasure> StoresOfRestoration() {
  return {Claim(audit::kStoreTokens, audit::kLevelRowsDeleted,
                "deleted again in one transaction with this certificate"),
          Claim(audit::kStoreKeys, audit::kLevelNotClaimed,
                "the certificates after those of their erasures say what became of the keys"),
          Claim(audit::kStoreExports, audit::kLevelNoTokenContent, "")};
}

absl::StatusOr<audit::VerificationKey> SigningKeyOf(const store::CertificateRecord& record,
                                                    const std::string& origin) {
  const auto bad = [&record] {
    return absl::DataLossError(
        absl::StrCat("certificate ", record.sequence, " does not name the key that signed it"));
  };
  constexpr absl::string_view kField = "\"rawBytes\":\"";
  absl::string_view leaf = record.leaf;
  const size_t field = leaf.find(kField);
  if (field == absl::string_view::npos) return bad();
  leaf.remove_prefix(field + kField.size());
  const absl::StatusOr<std::string> spki = audit::DecodeBase64(leaf.substr(0, leaf.find('"')));
  if (!spki.ok() || spki->size() < audit::kPublicKeyBytes) return bad();
  absl::StatusOr<audit::VerificationKey> key =
      audit::VerificationKey::FromRaw(origin, spki->substr(spki->size() - audit::kPublicKeyBytes));
  // The entry is a function of certificate and key, so this shows that nothing was misread.
  if (!key.ok() || !VerifyRecord(record, *key).ok()) return bad();
  return key;
}

absl::StatusOr<audit::CertificateBody> ReadBody(const store::CertificateRecord& record) {
  absl::StatusOr<audit::Envelope> envelope = audit::ParseEnvelope(record.envelope);
  if (envelope.ok()) {
    absl::StatusOr<audit::CertificateBody> body = audit::ParseStatement(envelope->payload);
    if (body.ok()) return body;
  }
  return absl::DataLossError(
      absl::StrCat("certificate ", record.sequence, " is not what was written"));
}

audit::PartitionSizes ToSizes(const svdd::PartitionCounts& counts) {
  return {.margin = counts.margin, .error = counts.error, .reserve = counts.reserve};
}

audit::Residuals ResidualsOf(const svdd::Snapshot& snapshot, const svdd::KktReport& check) {
  audit::Residuals residuals;
  residuals.gap_bound = 0.0;
  residuals.readout_bound = 0.0;
  if (snapshot.phase != svdd::Phase::kActive) return residuals;
  const svdd::Proof& proof = snapshot.proof;
  residuals.gap_bound = NotNegative(proof.gap_bound);
  residuals.readout_bound = NotNegative(proof.readout_bound);
  residuals.kkt_residual = NotNegative(check.max_violation);
  residuals.duality_gap = NotNegative(check.gap);
  residuals.slack = proof.slack;
  residuals.weight_bound = NotNegative(proof.weight_bound);
  residuals.decision_bound = NotNegative(proof.decision_bound);
  residuals.condition = NotNegative(proof.condition);
  residuals.precision_bits = static_cast<uint32_t>(std::max(0, proof.precision_bits));
  return residuals;
}

absl::StatusOr<store::CertificateAppend> SignForStore(const audit::CertificateBody& body,
                                                      const store::LogHead& head,
                                                      const audit::Signer& signer,
                                                      const audit::Signer* next,
                                                      const std::string& memory_uid,
                                                      const std::string& memory_name,
                                                      int64_t time_micros) {
  LETHE_ASSIGN_OR_RETURN(audit::SignedCertificate made, audit::BuildCertificate(body, signer));
  store::CertificateAppend append;
  append.record.sequence = body.sequence;
  append.record.id = std::move(made.id);
  append.record.kind = std::string(audit::Name(body.kind));
  append.record.memory_uid = memory_uid;
  append.record.memory_name = memory_name;
  append.record.create_time_micros = time_micros;
  append.record.envelope = std::move(made.envelope);
  append.record.leaf = std::move(made.leaf);
  append.record.leaf_hash = made.leaf_hash;
  append.record.previous_leaf_hash = body.previous_leaf_hash;
  LETHE_ASSIGN_OR_RETURN(audit::CompactRange range,
                         audit::CompactRange::Restore(head.count, head.range));
  const audit::Digest old_root = range.Root();
  range.Append(made.leaf_hash);
  const audit::Signer& checkpoint_signer = next != nullptr ? *next : signer;
  LETHE_ASSIGN_OR_RETURN(
      append.checkpoint,
      audit::SignCheckpoint({body.origin, range.size(), range.Root()}, checkpoint_signer));
  if (next != nullptr) append.next_vkey = next->verification_key().vkey();
  append.verify = [key = signer.verification_key(),
                   checkpoint_key = checkpoint_signer.verification_key(),
                   old_root](const store::WrittenCertificate& written) {
    return VerifyWritten(written, key, checkpoint_key, old_root);
  };
  return append;
}

absl::StatusOr<std::string> ProofOfLast(const store::LogHead& head,
                                        const store::CertificateAppend& append) {
  LETHE_ASSIGN_OR_RETURN(audit::CompactRange range,
                         audit::CompactRange::Restore(head.count, head.range));
  // To the left of a last leaf lie the complete subtrees before it, the smallest next to it.
  const std::vector<audit::Digest> proof(head.range.rbegin(), head.range.rend());
  range.Append(append.record.leaf_hash);
  const absl::Status proven = audit::VerifyInclusion(append.record.sequence, range.size(),
                                                     append.record.leaf_hash, proof, range.Root());
  if (!proven.ok()) return absl::InternalError("the proof of the last certificate does not hold");
  return audit::TlogProof(append.record.sequence, proof, append.checkpoint);
}

absl::Status VerifyWritten(const store::WrittenCertificate& written,
                           const audit::VerificationKey& key,
                           const audit::VerificationKey& checkpoint_key,
                           const audit::Digest& old_root) {
  const store::CertificateRecord& record = written.record;
  LETHE_RETURN_IF_ERROR(VerifyRecord(record, key));
  const auto fails = [&record](absl::string_view what) {
    return absl::DataLossError(
        absl::StrCat("certificate ", record.sequence, ", as written: ", what));
  };
  const audit::CheckpointResult checkpoint =
      audit::VerifyCheckpoint(written.checkpoint, checkpoint_key);
  if (!checkpoint.ok()) return fails(audit::Name(checkpoint.failure));
  const uint64_t size = record.sequence + 1;
  if (checkpoint.checkpoint.size != size || checkpoint.checkpoint.root != written.root) {
    return fails("the checkpoint is over another log");
  }
  const absl::Status included = audit::VerifyInclusion(record.sequence, size, record.leaf_hash,
                                                       written.inclusion, written.root);
  if (!included.ok()) return fails("its inclusion in the tree is not proven");
  if (written.old_root != old_root) return fails("the log before it is another");
  if (record.sequence == 0) return absl::OkStatus();
  const absl::Status continued = audit::VerifyConsistency(record.sequence, size, written.old_root,
                                                          written.root, written.consistency);
  return continued.ok() ? continued : fails("the tree does not continue the one before");
}

absl::StatusOr<audit::Digest> RootOf(const store::LogHead& head) {
  const absl::StatusOr<audit::CompactRange> range =
      audit::CompactRange::Restore(head.count, head.range);
  if (!range.ok()) return absl::DataLossError("the log's range does not fit its size");
  return range->Root();
}

absl::Status VerifyHead(const store::LogHead& head, const audit::VerificationKey& key) {
  LETHE_ASSIGN_OR_RETURN(const audit::Digest root, RootOf(head));
  const audit::CheckpointResult result = audit::VerifyCheckpoint(head.checkpoint, key);
  if (!result.ok()) {
    return absl::DataLossError(
        absl::StrCat("the log's checkpoint fails its check: ", audit::Name(result.failure)));
  }
  if (result.checkpoint.size != head.count || result.checkpoint.root != root) {
    return absl::DataLossError("the log's checkpoint is over another log");
  }
  return absl::OkStatus();
}

absl::Status VerifyRecord(const store::CertificateRecord& record,
                          const audit::VerificationKey& key) {
  const audit::CertificateResult result =
      audit::VerifyCertificate(record.envelope, absl::string_view(record.leaf), key);
  if (!result.ok()) {
    return absl::DataLossError(absl::StrCat("certificate ", record.sequence,
                                            " fails its check: ", audit::Name(result.failure)));
  }
  if (result.id != record.id || result.leaf_hash != record.leaf_hash ||
      result.body->sequence != record.sequence ||
      result.body->previous_leaf_hash != record.previous_leaf_hash) {
    return absl::DataLossError(
        absl::StrCat("certificate ", record.sequence, " is not the one its record describes"));
  }
  return absl::OkStatus();
}

CertificateInfo ToInfo(const store::CertificateRecord& record) {
  CertificateInfo info;
  info.id = record.id;
  info.sequence = record.sequence;
  info.kind = record.kind;
  info.memory = record.memory_name;
  info.create_time = FormatMicros(record.create_time_micros);
  info.envelope = record.envelope;
  info.leaf = record.leaf;
  info.leaf_hash = audit::Hex(record.leaf_hash);
  if (record.previous_leaf_hash.has_value()) {
    info.previous_leaf_hash = audit::Hex(*record.previous_leaf_hash);
  }
  return info;
}

}  // namespace lethe::service
