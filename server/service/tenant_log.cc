// Tenant: its log as a whole: keys, checkpoints, proofs, witnesses, hand-overs.
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "audit/checkpoint.h"
#include "audit/commitments.h"
#include "audit/encoding.h"
#include "audit/note.h"
#include "audit/random.h"
#include "audit/tlog_proof.h"
#include "audit/tree_proof.h"
#include "core/base/status_macros.h"
#include "server/service/certificates.h"
#include "server/service/names.h"
#include "server/service/tenant.h"

namespace lethe::service {
namespace {

std::vector<std::string> ToStrings(const std::vector<audit::Digest>& hashes) {
  std::vector<std::string> strings;
  strings.reserve(hashes.size());
  for (const audit::Digest& hash : hashes) strings.emplace_back(audit::AsBytes(hash));
  return strings;
}

// A witness that is configured no more may have cosigned the present size. Its line is not given
// out: a note takes 100 signatures, and only the configuration bounds how many witnesses there are.
bool OfConfiguredWitness(const store::Cosignature& cosignature,
                         const std::vector<audit::WitnessKey>& witnesses) {
  const absl::StatusOr<audit::NoteSignature> signature =
      audit::ParseSignatureLine(cosignature.line);
  if (!signature.ok()) return false;
  for (const audit::WitnessKey& witness : witnesses) {
    if (witness.Owns(*signature)) return true;
  }
  return false;
}

// The nodes of a store's log, for the functions that make proofs.
class NodesOf {
 public:
  explicit NodesOf(store::TenantStore* store) : store_(store) {}
  absl::StatusOr<audit::Digest> operator()(int level, uint64_t index) const {
    LETHE_ASSIGN_OR_RETURN(const std::vector<store::Bytes32> nodes,
                           store_->GetLogNodes(level, index, 1));
    if (nodes.empty()) return absl::DataLossError("a node of the log's tree is missing");
    return nodes.front();
  }

 private:
  store::TenantStore* store_;
};

}  // namespace

void Tenant::SetSigner(audit::Signer signer) {
  std::string vkey = signer.verification_key().vkey();
  signer_.emplace(std::move(signer));
  MutexLock lock(map_mutex_);
  vkey_ = std::move(vkey);
}

absl::Status Tenant::StartLog(const store::LogHead& head) {
  if (head.count > 0) return absl::DataLossError("the log has certificates and no checkpoint");
  LETHE_ASSIGN_OR_RETURN(const audit::Signer signer, keys_->Current(record_.log_origin));
  const audit::VerificationKey& key = signer.verification_key();
  LETHE_ASSIGN_OR_RETURN(const audit::Digest root, RootOf(head));
  store::LogStart start;
  start.vkey = key.vkey();
  LETHE_ASSIGN_OR_RETURN(start.checkpoint,
                         audit::SignCheckpoint({record_.log_origin, head.count, root}, signer));
  start.verify = [&](absl::string_view checkpoint) {
    store::LogHead written = head;
    written.checkpoint = std::string(checkpoint);
    return VerifyHead(written, key);
  };
  return store_->StartLog(start);
}

absl::Status Tenant::OpenLog(bool closed) {
  LETHE_ASSIGN_OR_RETURN(store::LogHead head, store_->GetLogHead());
  certificate_count_.store(head.count);
  if (head.checkpoint.empty()) {
    LETHE_RETURN_IF_ERROR(StartLog(head));
    LETHE_ASSIGN_OR_RETURN(head, store_->GetLogHead());
  }
  LETHE_ASSIGN_OR_RETURN(const std::vector<store::LogKey> keys, store_->GetLogKeys());
  if (keys.empty()) return absl::DataLossError("the log of certificates has no key");
  std::optional<audit::Signer> signer;
  if (!closed) {
    LETHE_ASSIGN_OR_RETURN(signer, keys_->Find(record_.log_origin, keys.back().vkey));
  }
  LETHE_ASSIGN_OR_RETURN(const audit::VerificationKey newest,
                         audit::VerificationKey::Parse(keys.back().vkey));
  LETHE_RETURN_IF_ERROR(VerifyHead(head, newest));
  if (head.count > 0) {
    store::CertificateQuery query;
    query.limit = 1;
    if (head.count > 1) query.after_sequence = head.count - 2;
    LETHE_ASSIGN_OR_RETURN(const std::vector<store::CertificateRecord> last,
                           store_->ListCertificates(query));
    if (last.size() != 1 || last.front().sequence != head.count - 1 ||
        last.front().leaf_hash != head.leaf_hash) {
      return absl::DataLossError("the log of certificates has lost its end");
    }
    // A hand-over itself is signed by the key before.
    absl::string_view vkey = keys.front().vkey;
    for (const store::LogKey& key : keys) {
      if (key.first_sequence < head.count) vkey = key.vkey;
    }
    LETHE_ASSIGN_OR_RETURN(const audit::VerificationKey key, audit::VerificationKey::Parse(vkey));
    LETHE_RETURN_IF_ERROR(VerifyRecord(last.front(), key));
  }
  if (signer.has_value()) SetSigner(*std::move(signer));
  return absl::OkStatus();
}

absl::StatusOr<store::LogHead> Tenant::ReadHead() {
  LETHE_RETURN_IF_ERROR(EnsureStore());
  absl::StatusOr<store::LogHead> head = store_->GetLogHead();
  return head.ok() ? std::move(head) : StoreFailed(nullptr, head.status());
}

absl::StatusOr<CheckpointInfo> Tenant::ReadCheckpoint() {
  LETHE_ASSIGN_OR_RETURN(const store::LogHead head, ReadHead());
  LETHE_ASSIGN_OR_RETURN(const audit::Digest root, RootOf(head));
  const absl::StatusOr<std::vector<store::LogKey>> keys = store_->GetLogKeys();
  if (!keys.ok()) return StoreFailed(nullptr, keys.status());
  const absl::StatusOr<std::vector<store::Cosignature>> cosignatures = store_->GetCosignatures();
  if (!cosignatures.ok()) return StoreFailed(nullptr, cosignatures.status());
  CheckpointInfo info{.note = head.checkpoint,
                      .origin = record_.log_origin,
                      .size = head.count,
                      .root = audit::Hex(root),
                      .keys = {}};
  // A signature is a line at the end of the note.
  for (const store::Cosignature& cosignature : *cosignatures) {
    if (OfConfiguredWitness(cosignature, options_.witnesses)) {
      absl::StrAppend(&info.note, cosignature.line);
    }
  }
  for (const store::LogKey& key : *keys) info.keys.push_back({key.first_sequence, key.vkey});
  return info;
}

absl::StatusOr<CheckpointInfo> Tenant::GetCheckpoint() {
  MutexLock lock(writer_);
  return ReadCheckpoint();
}

absl::StatusOr<InclusionProofReply> Tenant::GetInclusionProof(const CertificateName& which,
                                                              uint64_t size) {
  MutexLock lock(writer_);
  LETHE_ASSIGN_OR_RETURN(const CheckpointInfo checkpoint, ReadCheckpoint());
  InclusionProofReply reply;
  reply.size = size == 0 ? checkpoint.size : size;
  if (reply.size > checkpoint.size) {
    return FieldError("size", absl::StrCat("the log has ", checkpoint.size, " certificates"));
  }
  absl::string_view field = "sequence";
  if (const auto* id = std::get_if<std::string>(&which)) {
    field = "certificate_id";
    const absl::StatusOr<store::CertificateRecord> record = store_->GetCertificate(*id);
    if (absl::IsNotFound(record.status())) {
      return absl::NotFoundError(
          "certificate_id: the tenant's log has no certificate with this id");
    }
    if (!record.ok()) return StoreFailed(nullptr, record.status());
    reply.sequence = record->sequence;
  } else if (const auto* sequence = std::get_if<uint64_t>(&which)) {
    reply.sequence = *sequence;
  } else {
    return FieldError("which", "certificate_id or sequence must be set");
  }
  if (reply.sequence >= reply.size) {
    return FieldError(field, absl::StrCat("is not among the first ", reply.size, " certificates"));
  }
  const NodesOf read(store_.get());
  const absl::StatusOr<audit::Digest> leaf_hash = read(0, reply.sequence);
  if (!leaf_hash.ok()) return StoreFailed(nullptr, leaf_hash.status());
  const absl::StatusOr<audit::Digest> root = audit::RootAt(reply.size, read);
  if (!root.ok()) return StoreFailed(nullptr, root.status());
  const absl::StatusOr<std::vector<audit::Digest>> proof =
      audit::InclusionProof(reply.sequence, reply.size, read);
  if (!proof.ok()) return StoreFailed(nullptr, proof.status());
  const absl::Status proven =
      audit::VerifyInclusion(reply.sequence, reply.size, *leaf_hash, *proof, *root);
  if (!proven.ok()) return StoreFailed(nullptr, absl::DataLossError(proven.message()));
  reply.leaf_hash = audit::Hex(*leaf_hash);
  reply.root = audit::Hex(*root);
  reply.hashes = ToStrings(*proof);
  if (reply.size == checkpoint.size) {
    reply.tlog_proof = audit::TlogProof(reply.sequence, *proof, checkpoint.note);
  }
  return reply;
}

absl::StatusOr<ConsistencyProofReply> Tenant::GetConsistencyProof(uint64_t old_size,
                                                                  uint64_t new_size) {
  MutexLock lock(writer_);
  LETHE_ASSIGN_OR_RETURN(const store::LogHead head, ReadHead());
  ConsistencyProofReply reply;
  reply.old_size = old_size;
  reply.new_size = new_size == 0 ? head.count : new_size;
  if (reply.new_size > head.count) {
    return FieldError("new_size", absl::StrCat("the log has ", head.count, " certificates"));
  }
  if (old_size == 0) return FieldError("old_size", "must be at least 1: nothing shows of less");
  if (old_size > reply.new_size) {
    return FieldError("old_size", absl::StrCat("must be at most ", reply.new_size));
  }
  const NodesOf read(store_.get());
  const absl::StatusOr<audit::Digest> old_root = audit::RootAt(old_size, read);
  if (!old_root.ok()) return StoreFailed(nullptr, old_root.status());
  const absl::StatusOr<audit::Digest> new_root = audit::RootAt(reply.new_size, read);
  if (!new_root.ok()) return StoreFailed(nullptr, new_root.status());
  const absl::StatusOr<std::vector<audit::Digest>> proof =
      audit::ConsistencyProof(old_size, reply.new_size, read);
  if (!proof.ok()) return StoreFailed(nullptr, proof.status());
  const absl::Status proven =
      audit::VerifyConsistency(old_size, reply.new_size, *old_root, *new_root, *proof);
  if (!proven.ok()) return StoreFailed(nullptr, absl::DataLossError(proven.message()));
  reply.old_root = audit::Hex(*old_root);
  reply.new_root = audit::Hex(*new_root);
  reply.hashes = ToStrings(*proof);
  return reply;
}

absl::StatusOr<CheckpointInfo> Tenant::AddCosignature(absl::string_view line,
                                                      const CallOptions& call) {
  const std::string whole = absl::StrCat(absl::StripTrailingAsciiWhitespace(line), "\n");
  if (whole.size() > store::kMaxCosignatureBytes) return FieldError("line", "is too long");
  const absl::StatusOr<audit::NoteSignature> signature = audit::ParseSignatureLine(whole);
  if (!signature.ok()) return FieldError("line", "is no signature line of a note");
  const audit::WitnessKey* witness = nullptr;
  for (const audit::WitnessKey& key : options_.witnesses) {
    if (key.Owns(*signature)) witness = &key;
  }
  if (witness == nullptr) {
    return FieldError("line", "is of no witness that this server was configured with");
  }
  MutexLock lock(writer_);
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  LETHE_ASSIGN_OR_RETURN(const store::LogHead head, ReadHead());
  LETHE_ASSIGN_OR_RETURN(const audit::Digest root, RootOf(head));
  const std::string text = audit::CheckpointText({record_.log_origin, head.count, root});
  if (head.count == 0 || !witness->Verify(text, *signature)) {
    return absl::FailedPreconditionError(
        absl::StrCat("line: is not this witness's signature of the present checkpoint, of size ",
                     head.count, "; if the log has grown meanwhile, cosign that one"));
  }
  const absl::Status status =
      store_->PutCosignature({.key_id = witness->key_id(), .size = head.count, .line = whole});
  if (!status.ok()) return StoreFailed(nullptr, status);
  options_.log->Write(program::LogLevel::kInfo, "cosigned",
                      {{"tenant", record_.name}, {"size", static_cast<int64_t>(head.count)}});
  return ReadCheckpoint();
}

absl::StatusOr<store::CertificateRecord> Tenant::AppendAlone(audit::CertificateBody body,
                                                             const store::LogHead& head,
                                                             const audit::Signer* next,
                                                             const Memory* memory,
                                                             int64_t time_micros) {
  body.request_commitment =
      audit::RequestCommitment(audit::RandomSalt(), record_.name, audit::RandomUid());
  LETHE_ASSIGN_OR_RETURN(
      store::CertificateAppend append,
      SignForStore(body, head, *signer_, next, memory == nullptr ? "" : memory->uid,
                   memory == nullptr ? "" : memory->name, time_micros));
  const absl::Status status = store_->AppendCertificate(append);
  if (!status.ok()) return StoreFailed(nullptr, status);
  CountAppend();
  return std::move(append.record);
}

absl::StatusOr<bool> Tenant::HandOver() {
  MutexLock lock(writer_);
  LETHE_ASSIGN_OR_RETURN(const store::LogHead head, ReadHead());
  LETHE_ASSIGN_OR_RETURN(audit::Signer next, keys_->Newest(record_.log_origin));
  const std::string vkey = next.verification_key().vkey();
  if (vkey == signer_->verification_key().vkey()) return false;
  const int64_t now = NowMicros();
  audit::CertificateBody body =
      BaseBody(record_.log_origin, head, audit::CertificateKind::kKeyHandover, now);
  body.handover = audit::KeyHandover{vkey};
  LETHE_ASSIGN_OR_RETURN(const store::CertificateRecord record,
                         AppendAlone(std::move(body), head, &next, nullptr, now));
  SetSigner(std::move(next));
  options_.log->Write(program::LogLevel::kInfo, "key_handed_over",
                      {{"tenant", record_.name}, {"certificate", record.id}});
  return true;
}

}  // namespace lethe::service
