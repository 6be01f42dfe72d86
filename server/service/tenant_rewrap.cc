// Tenant: a new key-encryption key (KEK), and the certificates that name the epochs of the old
// ones.
//
// An epoch is named once. What the vault lists as ended and not yet forgotten may have been named
// already when a crash came between the certificate and ForgetEndedEpochs; the log decides.
#include <algorithm>
#include <utility>

#include "audit/certificate.h"
#include "core/base/status_macros.h"
#include "server/service/certificates.h"
#include "server/service/tenant.h"

namespace lethe::service {
namespace {

// Certificates that are read at a time on the way back through the log.
constexpr uint64_t kLookBack = 256;

// Whatever the error: a step that failed may have been preceded by others.
absl::Status NotAllRewrapped() {
  return absl::UnavailableError(
      "the keys are not all wrapped anew and the old key-encryption key may still be there; the "
      "server's log says why; send the same request again");
}

}  // namespace

void Tenant::LogRewrapped(const store::KeysRewrapped& rewrapped, absl::string_view reason) const {
  options_.log->Write(program::LogLevel::kInfo, "keys_rewrapped",
                      {{"tenant", record_.name},
                       {"keys", static_cast<int64_t>(rewrapped.keys)},
                       {"epoch", int64_t{rewrapped.epoch}},
                       {"reason", std::string(reason)}});
}

absl::StatusOr<uint64_t> Tenant::LastNamedEpoch() {
  LETHE_ASSIGN_OR_RETURN(const store::LogHead head, store_->GetLogHead());
  for (uint64_t end = head.count; end > 0;) {
    const uint64_t begin = end > kLookBack ? end - kLookBack : 0;
    store::CertificateQuery query{.after_sequence = std::nullopt,
                                  .memory_name = "",
                                  .limit = static_cast<uint32_t>(end - begin)};
    if (begin > 0) query.after_sequence = begin - 1;
    LETHE_ASSIGN_OR_RETURN(const std::vector<store::CertificateRecord> records,
                           store_->ListCertificates(query));
    for (auto record = records.rbegin(); record != records.rend(); ++record) {
      if (record->kind != audit::Name(audit::CertificateKind::kShredded)) continue;
      LETHE_ASSIGN_OR_RETURN(const audit::CertificateBody body, ReadBody(*record));
      if (body.destruction.has_value() && !body.destruction->epochs.empty()) {
        return body.destruction->epochs.back();
      }
    }
    end = begin;
  }
  return uint64_t{0};
}

absl::StatusOr<std::vector<uint64_t>> Tenant::UnnamedEpochs() {
  LETHE_ASSIGN_OR_RETURN(const std::vector<uint32_t> ended, store_->EndedEpochs());
  if (!named_epoch_.has_value()) {
    // With nothing listed, all that ends from now on is not named yet.
    named_epoch_ = 0;
    if (!ended.empty()) {
      absl::StatusOr<uint64_t> named = LastNamedEpoch();
      if (!named.ok()) {
        named_epoch_.reset();
        return named.status();
      }
      named_epoch_ = *named;
    }
  }
  std::vector<uint64_t> unnamed;
  for (const uint32_t epoch : ended) {
    if (epoch > *named_epoch_ && unnamed.size() < audit::kMaxEpochs) unnamed.push_back(epoch);
  }
  return unnamed;
}

void Tenant::EpochsNamed(const std::vector<uint64_t>& epochs) {
  if (!epochs.empty()) named_epoch_ = epochs.back();
  if (named_epoch_.value_or(0) == 0) return;
  const absl::Status forgotten = store_->ForgetEndedEpochs(static_cast<uint32_t>(*named_epoch_));
  if (forgotten.ok()) return;
  // They are named, and the next opening finds that out.
  options_.log->Write(program::LogLevel::kWarning, "ended_epochs_kept",
                      {{"tenant", record_.name}, {"message", std::string(forgotten.message())}});
}

absl::StatusOr<std::string> Tenant::NameEpochs() {
  std::string certificate_id;
  while (true) {
    absl::StatusOr<std::vector<uint64_t>> epochs = UnnamedEpochs();
    if (!epochs.ok()) return StoreFailed(nullptr, epochs.status());
    if (epochs->empty()) break;
    const absl::StatusOr<store::LogHead> head = store_->GetLogHead();
    if (!head.ok()) return StoreFailed(nullptr, head.status());
    const int64_t now = NowMicros();
    audit::CertificateBody body =
        BaseBody(record_.log_origin, *head, audit::CertificateKind::kShredded, now);
    body.destruction =
        audit::KeyDestruction{.erasures = std::nullopt, .epochs = *epochs, .keys = 0};
    body.stores = StoresOfEpochs();
    LETHE_ASSIGN_OR_RETURN(store::CertificateRecord record,
                           AppendAlone(std::move(body), *head, nullptr, nullptr, now));
    certificate_id = std::move(record.id);
    EpochsNamed(*epochs);
  }
  // Those that an earlier certificate names may still be listed.
  EpochsNamed({});
  return certificate_id;
}

absl::Status Tenant::FinishRotation() {
  const absl::StatusOr<store::KeysRewrapped> finished = store_->FinishRotation();
  if (!finished.ok()) return StoreFailed(nullptr, finished.status());
  if (finished->keys > 0) LogRewrapped(*finished, "a change that was interrupted");
  return NameEpochs().status();
}

absl::StatusOr<RewrapReply> Tenant::Rewrap(const CallOptions& call) {
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  LETHE_RETURN_IF_ERROR(FinishErasures());
  if (!FinishRotation().ok()) {
    if (!MakeRoom()) return NotAllRewrapped();
    LETHE_RETURN_IF_ERROR(EnsureStore());
    if (!FinishRotation().ok()) return NotAllRewrapped();
  }
  absl::StatusOr<store::KeysRewrapped> rewrapped = store_->RotateKeys();
  if (!rewrapped.ok()) {
    StoreFailed(nullptr, rewrapped.status()).IgnoreError();
    if (MakeRoom()) {
      LETHE_RETURN_IF_ERROR(EnsureStore());
      rewrapped = store_->RotateKeys();
      if (!rewrapped.ok()) StoreFailed(nullptr, rewrapped.status()).IgnoreError();
    }
  }
  if (!rewrapped.ok()) return NotAllRewrapped();
  LogRewrapped(*rewrapped, "asked for");
  RewrapReply reply{.keys = rewrapped->keys, .epoch = rewrapped->epoch, .certificate_id = {}};
  LETHE_ASSIGN_OR_RETURN(reply.certificate_id, NameEpochs());
  return reply;
}

}  // namespace lethe::service
