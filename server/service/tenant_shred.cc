// Tenant: the end of an erasure: the write-ahead log, the keys, the certificate about them; and the
// end of the tenant.
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/certificate.h"
#include "audit/commitments.h"
#include "audit/random.h"
#include "audit/verify.h"
#include "core/base/disk_full.h"
#include "core/base/status_macros.h"
#include "server/service/certificates.h"
#include "server/service/tenant.h"

namespace lethe::service {
namespace {

// Certificates that are read at a time while the one about an erasure's keys is looked for; it is
// the next, unless several erasures were finished together.
constexpr uint32_t kLookAhead = 8;

}  // namespace

absl::Status Tenant::Unfinished(absl::string_view event, const absl::Status& status) {
  disk_full_ = disk_full_ || IsDiskFull(status);
  options_.log->Write(program::LogLevel::kError, event,
                      {{"tenant", record_.name},
                       {"code", static_cast<int64_t>(status.code())},
                       {"message", std::string(status.message())}});
  return absl::UnavailableError(
      "what was to be erased is erased and certified, but its keys are not shown to be destroyed, "
      "or old bytes may remain in the write-ahead log; repeat the request, with the same "
      "request_id if it had one");
}

absl::Status Tenant::CleanLog() {
  if (!log_unclean_) return absl::OkStatus();
  if (const absl::Status status = store_->Checkpoint(); !status.ok()) {
    return Unfinished("checkpoint_failed", status);
  }
  log_unclean_ = false;
  return absl::OkStatus();
}

absl::Status Tenant::FinishErasures() {
  const absl::Status status = FinishErasuresOnce();
  if (status.ok() || !MakeRoom()) return status;
  LETHE_RETURN_IF_ERROR(EnsureStore());
  return FinishErasuresOnce();
}

absl::Status Tenant::FinishErasuresOnce() {
  LETHE_RETURN_IF_ERROR(CleanLog());
  while (keys_pending_) {
    const absl::StatusOr<std::vector<store::PendingErasure>> pending = store_->PendingErasures();
    if (!pending.ok()) return Unfinished("shred_failed", pending.status());
    if (pending->empty()) {
      keys_pending_ = false;
      break;
    }
    if (const absl::Status status = Shred(*pending); !status.ok()) {
      return Unfinished("shred_failed", status);
    }
  }
  if (encoder_keys_pending_) {
    if (const absl::Status status = DestroyEndedKeys(); !status.ok()) {
      Unfinished("shred_failed", status).IgnoreError();  // for the log
      return absl::UnavailableError(
          "the keys of a deleted memory's encoder, or of requests that have ended, are not shown to"
          " be destroyed; repeat the request");
    }
    encoder_keys_pending_ = false;
  }
  return absl::OkStatus();
}

absl::Status Tenant::Shred(std::span<const store::PendingErasure> pending) {
  const uint64_t through = pending.back().sequence;
  LETHE_ASSIGN_OR_RETURN(const store::KeysDestroyed destroyed, store_->DestroyPendingKeys(through));
  // Destroyed and not shown to be gone is not good enough for a certificate. Copies that cannot be
  // removed are worthless once the KEK that they need has ended.
  const bool copies = absl::IsDataLoss(destroyed.evidence);
  if (copies) {
    LETHE_ASSIGN_OR_RETURN(const store::KeysRewrapped rewrapped, store_->RotateKeys());
    LogRewrapped(rewrapped, destroyed.evidence.message());
  } else {
    LETHE_RETURN_IF_ERROR(destroyed.evidence);
  }
  LETHE_ASSIGN_OR_RETURN(const std::vector<uint64_t> epochs, UnnamedEpochs());
  LETHE_ASSIGN_OR_RETURN(const store::LogHead head, store_->GetLogHead());
  const int64_t now = NowMicros();
  audit::CertificateBody body =
      BaseBody(record_.log_origin, head, audit::CertificateKind::kShredded, now);
  body.request_commitment =
      audit::RequestCommitment(audit::RandomSalt(), record_.name, audit::RandomUid());
  audit::KeyDestruction destruction;
  destruction.erasures = audit::SequenceSpan{.first = pending.front().sequence, .last = through};
  destruction.keys = destroyed.destroyed;
  destruction.epochs = epochs;
  body.destruction = destruction;
  body.stores = StoresOfDestruction(destroyed, copies);
  LETHE_ASSIGN_OR_RETURN(const store::CertificateAppend certificate,
                         SignForStore(body, head, *signer_, nullptr, "", "", now));
  LETHE_RETURN_IF_ERROR(store_->AppendShredded(certificate, through));
  CountAppend();
  options_.log->Write(program::LogLevel::kInfo, "shredded",
                      {{"tenant", record_.name},
                       {"keys", static_cast<int64_t>(destruction.keys)},
                       {"certificate", certificate.record.id}});
  EpochsNamed(epochs);
  return absl::OkStatus();
}

absl::StatusOr<Destruction> Tenant::DestructionOf(absl::string_view certificate_id) {
  const absl::StatusOr<store::CertificateRecord> erasure = store_->GetCertificate(certificate_id);
  if (!erasure.ok()) return StoreFailed(nullptr, erasure.status());
  LETHE_ASSIGN_OR_RETURN(audit::CertificateBody erased, ReadBody(*erasure));
  store::CertificateQuery query{
      .after_sequence = erasure->sequence, .memory_name = "", .limit = kLookAhead};
  while (true) {
    const absl::StatusOr<std::vector<store::CertificateRecord>> records =
        store_->ListCertificates(query);
    if (!records.ok()) return StoreFailed(nullptr, records.status());
    for (const store::CertificateRecord& record : *records) {
      if (record.kind != audit::Name(audit::CertificateKind::kShredded)) continue;
      LETHE_ASSIGN_OR_RETURN(const audit::CertificateBody body, ReadBody(record));
      if (!body.destruction.has_value() || !body.destruction->erasures.has_value()) continue;
      const audit::SequenceSpan& span = *body.destruction->erasures;
      if (erasure->sequence < span.first || erasure->sequence > span.last) continue;
      Destruction destruction{
          .certificate_id = record.id, .stores = {}, .exceptions = std::move(erased.exceptions)};
      for (const audit::StoreErasure& store : body.stores) {
        destruction.stores.push_back({store.store, store.level, store.evidence});
      }
      return destruction;
    }
    if (records->size() < kLookAhead) {
      return StoreFailed(nullptr, absl::DataLossError("the log has an erasure of which no "
                                                      "certificate says that its keys are gone"));
    }
    query.after_sequence = records->back().sequence;
  }
}

absl::StatusOr<DeleteTenantReply> Tenant::Close(const CallOptions& call) {
  MutexLock lock(writer_);
  if (closed()) return absl::NotFoundError("tenant: there is none with this name");
  if (gone() || store_ == nullptr || !store_->Health().ok()) {
    // An earlier call may have begun. How far it came is what the file says.
    LETHE_RETURN_IF_ERROR(Reopen());
    if (closed()) return absl::NotFoundError("tenant: there is none with this name");
  }
  if (!gone()) {
    LETHE_RETURN_IF_ERROR(CheckNothingHeld(nullptr, "name"));
    if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  }
  return FinishClosing();
}

absl::StatusOr<DeleteTenantReply> Tenant::FinishClosing() {
  absl::StatusOr<DeleteTenantReply> reply = FinishClosingOnce();
  if (reply.ok() || !MakeRoom()) return reply;
  if (!store_->Health().ok()) LETHE_RETURN_IF_ERROR(Reopen());
  // Where the last step turned out to be done its answer is lost, as after a crash.
  return closed() ? reply : FinishClosingOnce();
}

absl::StatusOr<DeleteTenantReply> Tenant::FinishClosingOnce() {
  const absl::StatusOr<store::EraseResult> begun = store_->BeginClose();
  if (!begun.ok()) return StoreFailed(nullptr, begun.status());
  gone_.store(true);
  if (options_.agenda != nullptr) options_.agenda->Replace(record_.name, {});
  {
    MutexLock map_lock(map_mutex_);
    memories_.clear();
  }
  log_unclean_ = !begun->checkpoint.ok();
  LETHE_RETURN_IF_ERROR(CleanLog());
  // What was trained goes with the rest, before the certificate that says that everything went.
  const bool jobs_ended = options_.jobs == nullptr || options_.jobs->EndTenant(record_.uid);
  if (!jobs_ended) {
    options_.log->Write(program::LogLevel::kError, "tenant_ended_without_jobs",
                        {{"tenant", record_.name}});
  }
  const absl::StatusOr<store::KeysDestroyed> destroyed = store_->DestroyAllKeys();
  if (!destroyed.ok()) return Unfinished("shred_failed", destroyed.status());
  const absl::StatusOr<store::LogHead> found = store_->GetLogHead();
  if (!found.ok()) return Unfinished("shred_failed", found.status());
  const store::LogHead& head = *found;
  const int64_t now = NowMicros();
  audit::CertificateBody body =
      BaseBody(record_.log_origin, head, audit::CertificateKind::kTenantClosed, now);
  body.request_commitment =
      audit::RequestCommitment(audit::RandomSalt(), record_.name, audit::RandomUid());
  body.counts.matched = begun->erased;
  body.counts.erased = begun->erased;
  body.stores = StoresOfClosing();
  if (!jobs_ended) {
    body.exceptions.push_back(
        "training jobs of the tenant, and what they made, are not shown to be destroyed");
  }
  LETHE_ASSIGN_OR_RETURN(const store::CertificateAppend certificate,
                         SignForStore(body, head, *signer_, nullptr, "", "", now));
  LETHE_ASSIGN_OR_RETURN(std::string proof, ProofOfLast(head, certificate));
  if (const absl::Status status = store_->FinishClose(certificate); !status.ok()) {
    return Unfinished("close_failed", status);
  }
  certificate_count_.store(head.count);
  CountAppend();
  options_.counters->erased += begun->erased;
  store_.reset();  // so that the folder can be moved
  closed_.store(true);
  DeleteTenantReply reply;
  reply.erased_tokens = begun->erased;
  reply.certificate_id = certificate.record.id;
  reply.envelope = certificate.record.envelope;
  reply.checkpoint = certificate.checkpoint;
  reply.tlog_proof = std::move(proof);
  for (const audit::StoreErasure& store : body.stores) {
    reply.stores.push_back({store.store, store.level, store.evidence});
  }
  return reply;
}

}  // namespace lethe::service
