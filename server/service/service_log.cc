// Service: the logs of the tenants as wholes, and the key that signs them.
#include <utility>

#include "absl/time/time.h"
#include "audit/encoding.h"
#include "core/base/status_macros.h"
#include "server/service/names.h"
#include "server/service/service.h"
#include "server/service/write_ticket.h"

namespace lethe::service {

absl::StatusOr<VerifyReply> Service::Verify(const std::string& tenant,
                                            const std::string& memory,
                                            const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                         WriteTicket::Take(&writes_, options_.max_waiting_writes));
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<Tenant> found, Find("tenant", tenant));
  LETHE_RETURN_IF_ERROR(CheckName("memory", memory));
  return found->Verify(memory, call);
}

absl::StatusOr<CheckpointInfo> Service::GetCheckpoint(const std::string& tenant) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                         WriteTicket::Take(&writes_, options_.max_waiting_writes));
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<Tenant> found, Find("tenant", tenant));
  return found->GetCheckpoint();
}

absl::StatusOr<InclusionProofReply> Service::GetInclusionProof(const std::string& tenant,
                                                               const CertificateName& which,
                                                               uint64_t size) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                         WriteTicket::Take(&writes_, options_.max_waiting_writes));
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<Tenant> found, Find("tenant", tenant));
  const auto* id = std::get_if<std::string>(&which);
  if (id != nullptr && !audit::DecodeDigest(*id).ok()) {
    return FieldError("certificate_id", "must be 64 lower-case hex digits");
  }
  return found->GetInclusionProof(which, size);
}

absl::StatusOr<ConsistencyProofReply> Service::GetConsistencyProof(const std::string& tenant,
                                                                   uint64_t old_size,
                                                                   uint64_t new_size) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                         WriteTicket::Take(&writes_, options_.max_waiting_writes));
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<Tenant> found, Find("tenant", tenant));
  return found->GetConsistencyProof(old_size, new_size);
}

absl::StatusOr<CheckpointInfo> Service::AddCosignature(const std::string& tenant,
                                                       const std::string& line) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                         WriteTicket::Take(&writes_, options_.max_waiting_writes));
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<Tenant> found, Find("tenant", tenant));
  return found->AddCosignature(line);
}

absl::Status Service::Export(const std::string& tenant,
                             const audit::ExportRange& range,
                             audit::ExportSink& sink) {
  // No ticket: an export lives as long as its reader likes. Who starts them bounds their number.
  LETHE_ASSIGN_OR_RETURN(const std::unique_ptr<audit::LogSource> log, OpenLog(tenant));
  return audit::WriteExport(*log, range, absl::ToUnixSeconds(options_.tenant.now()), sink);
}

absl::StatusOr<std::unique_ptr<audit::LogSource>> Service::OpenLog(const std::string& tenant) {
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<Tenant> found, Find("tenant", tenant));
  return found->OpenLogView();
}

absl::StatusOr<RotateKeyReply> Service::RotateKey(const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                         WriteTicket::Take(&writes_, options_.max_waiting_writes));
  MutexLock lock(directory_mutex_);
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  if (absl::Status begun = keys_->Begin(); !begun.ok()) {
    // File names are for the server's log alone.
    options_.tenant.log->Write(LogLevel::kError, "key_rotation_failed",
                               {{"message", std::string(begun.message())}});
    return absl::InternalError("the new key could not be made; the server's log says why");
  }
  return ContinueRotation();
}

absl::StatusOr<RotateKeyReply> Service::ContinueRotation() {
  std::vector<std::pair<std::string, std::shared_ptr<Tenant>>> tenants;
  {
    MutexLock lock(registry_mutex_);
    for (const auto& [name, entry] : registry_) tenants.emplace_back(name, entry.tenant);
  }
  RotateKeyReply reply;
  const auto failed = [this](const absl::Status& status) {
    options_.tenant.log->Write(LogLevel::kError, "key_rotation_failed",
                               {{"message", std::string(status.message())}});
    return absl::InternalError(
        "the rotation of the key stopped midway; the server's log says why, and the next call or "
        "start goes on");
  };
  for (const auto& [name, tenant] : tenants) {
    if (tenant == nullptr) {
      reply.pending.push_back(name);
      continue;
    }
    const absl::StatusOr<bool> handed_over = tenant->HandOver();
    // A closed log is signed no more and needs no private key, also where its folder stays.
    if (!handed_over.ok() && tenant->closed()) {
      MoveAway(name, *tenant);
      continue;
    }
    if (!handed_over.ok()) {
      options_.tenant.log->Write(
          LogLevel::kError, "key_hand_over_failed",
          {{"tenant", name}, {"message", std::string(handed_over.status().message())}});
      reply.pending.push_back(name);
      continue;
    }
    if (!*handed_over) continue;
    ++reply.handed_over;
    if (absl::Status status = keys_->Reached("handed-over"); !status.ok()) return failed(status);
  }
  reply.complete = reply.pending.empty();
  if (reply.complete) {
    if (absl::Status status = keys_->Finish(); !status.ok()) return failed(status);
  }
  options_.tenant.log->Write(reply.complete ? LogLevel::kInfo : LogLevel::kWarning,
                             reply.complete ? "key_rotated" : "key_rotation_pending",
                             {{"handed_over", static_cast<int64_t>(reply.handed_over)},
                              {"pending", static_cast<int64_t>(reply.pending.size())}});
  return reply;
}

}  // namespace lethe::service
