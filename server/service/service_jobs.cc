// Service: training jobs.
#include <utility>

#include "core/base/status_macros.h"
#include "server/service/names.h"
#include "server/service/service.h"
#include "server/service/write_ticket.h"

namespace lethe::service {

absl::StatusOr<std::string> Service::UidOf(const std::string& tenant, const CallOptions& call) {
  LETHE_RETURN_IF_ERROR(CheckName("tenant", tenant));
  // NOT_FOUND of one that is being deleted too.
  LETHE_RETURN_IF_ERROR(registry_.Info(tenant).status());
  if (std::optional<std::string> known = registry_.KnownUid(tenant)) return *std::move(known);
  LETHE_ASSIGN_OR_RETURN(const TenantHold found,
                         registry_.Acquire(tenant, TenantRegistry::Use::kRead, call));
  if (found->gone()) return NoSuchTenant();
  return found->uid();
}

absl::StatusOr<JobInfo> Service::SubmitJob(const JobInput& input, const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const WriteTicket ticket,
                         writes_.Take(WriteTickets::Use::kCall, input.tenant));
  LETHE_RETURN_IF_ERROR(ballast_->Admit(0));
  LETHE_ASSIGN_OR_RETURN(const TenantHold found,
                         Find("tenant", input.tenant, TenantRegistry::Use::kRead, call));
  return found->SubmitJob(input, quotas_.Of(input.tenant));
}

absl::StatusOr<JobInfo> Service::GetJob(const std::string& tenant,
                                        const std::string& id,
                                        const CallOptions& call) {
  LETHE_RETURN_IF_ERROR(CheckHexId("id", id));
  LETHE_ASSIGN_OR_RETURN(const std::string uid, UidOf(tenant, call));
  return jobs_->Get(uid, id);
}

absl::StatusOr<Page<JobInfo>> Service::ListJobs(const std::string& tenant,
                                                std::optional<JobState> state,
                                                const PageRequest& page,
                                                const CallOptions& call) {
  LETHE_ASSIGN_OR_RETURN(const std::string uid, UidOf(tenant, call));
  return jobs_->List(uid, state, page);
}

absl::StatusOr<JobInfo> Service::CancelJob(const std::string& tenant,
                                           const std::string& id,
                                           const CallOptions& call) {
  LETHE_RETURN_IF_ERROR(CheckHexId("id", id));
  LETHE_ASSIGN_OR_RETURN(const std::string uid, UidOf(tenant, call));
  return jobs_->Cancel(uid, id);
}

absl::Status Service::DeleteJob(const std::string& tenant,
                                const std::string& id,
                                const CallOptions& call) {
  LETHE_RETURN_IF_ERROR(CheckHexId("id", id));
  LETHE_ASSIGN_OR_RETURN(const std::string uid, UidOf(tenant, call));
  return jobs_->Delete(uid, id);
}

absl::Status Service::WatchJob(const std::string& tenant,
                               const std::string& id,
                               const CallOptions& call,
                               absl::FunctionRef<absl::Status(const JobInfo&)> send) {
  LETHE_RETURN_IF_ERROR(CheckHexId("id", id));
  LETHE_ASSIGN_OR_RETURN(const std::string uid, UidOf(tenant, call));
  return jobs_->Watch(uid, id, call, send);
}

absl::Status Service::ReadArtefact(const std::string& tenant,
                                   const std::string& id,
                                   const CallOptions& call,
                                   absl::FunctionRef<absl::Status(const JobArtefact&)> begin,
                                   SendPiece send) {
  LETHE_RETURN_IF_ERROR(CheckHexId("id", id));
  LETHE_ASSIGN_OR_RETURN(const std::string uid, UidOf(tenant, call));
  return jobs_->ReadArtefact(uid, id, begin, send);
}

absl::Status Service::ReadTrainingTokens(
    const LeaseName& lease,
    const CallOptions& call,
    absl::FunctionRef<absl::Status(uint64_t tokens)> begin,
    absl::FunctionRef<absl::Status(std::vector<TrainingToken> tokens)> send) {
  Tenant::JobReader reader;
  LETHE_ASSIGN_OR_RETURN(reader.reading, jobs_->BeginReading(lease));
  for (bool first = true;; first = false) {
    if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
    std::vector<TrainingToken> tokens;
    {
      // Given back before anything is sent: a slow worker keeps no tenant open.
      LETHE_ASSIGN_OR_RETURN(const Turn turn,
                             TakeTurn(WriteTickets::Use::kCall, reader.reading.tenant,
                                      TenantRegistry::Use::kRead, call));
      if (turn.tenant->uid() != reader.reading.tenant_uid) {
        return absl::FailedPreconditionError("lease: is not in force; the tenant is gone");
      }
      LETHE_ASSIGN_OR_RETURN(tokens, turn.tenant->ReadForJob(lease, reader));
    }
    if (first) LETHE_RETURN_IF_ERROR(begin(reader.snapshot->size()));
    if (tokens.empty()) return absl::OkStatus();
    LETHE_RETURN_IF_ERROR(send(std::move(tokens)));
  }
}

}  // namespace lethe::service
