#include <utility>

#include "core/base/status_macros.h"
#include "server/calls/convert_jobs.h"
#include "server/calls/unary_calls.h"

namespace lethe::calls {

using service::CallOptions;

std::vector<UnaryCall> JobCalls(service::Service* service) {
  return {
      MakeUnary<v1::SubmitJobRequest, v1::Job>(
          "SubmitJob",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->SubmitJob(FromProto(request), call), response);
          }),
      MakeUnary<v1::GetJobRequest, v1::Job>(
          "GetJob",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->GetJob(request.tenant(), request.id(), call), response);
          }),
      MakeUnary<v1::ListJobsRequest, v1::ListJobsResponse>(
          "ListJobs",
          [service](const auto& request, const CallOptions& call, auto* response) -> absl::Status {
            LETHE_ASSIGN_OR_RETURN(const auto state, FromProto(request.state()));
            LETHE_ASSIGN_OR_RETURN(
                auto page, service->ListJobs(request.tenant(), state, PageOf(request), call));
            for (const service::JobInfo& job : page.items) ToProto(job, response->add_jobs());
            response->set_next_page_token(std::move(page.next_page_token));
            return absl::OkStatus();
          }),
      MakeUnary<v1::CancelJobRequest, v1::Job>(
          "CancelJob",
          [service](const auto& request, const CallOptions& call, auto* response) {
            return Answer(service->CancelJob(request.tenant(), request.id(), call), response);
          }),
      MakeUnary<v1::DeleteJobRequest, v1::DeleteJobResponse>(
          "DeleteJob",
          [service](const auto& request, const CallOptions& call, auto*) {
            return service->DeleteJob(request.tenant(), request.id(), call);
          }),
  };
}

std::vector<UnaryCall> WorkerCalls(service::Service* service) {
  service::Jobs* jobs = &service->jobs();
  return {
      MakeUnary<v1::LeaseJobRequest, v1::LeaseJobResponse>(
          "LeaseJob",
          [jobs](const auto& request, const CallOptions& call, auto* response) -> absl::Status {
            LETHE_ASSIGN_OR_RETURN(const service::LeaseInput input, FromProto(request));
            return Answer(jobs->Lease(input, call), response);
          }),
      MakeUnary<v1::HeartbeatRequest, v1::HeartbeatResponse>(
          "Heartbeat",
          [jobs](const auto& request, const CallOptions&, auto* response) {
            return Answer(jobs->Heartbeat(FromProto(request.lease()), ProgressOf(request)),
                          response);
          }),
      MakeUnary<v1::FailJobRequest, v1::FailJobResponse>(
          "FailJob",
          [jobs](const auto& request, const CallOptions&, auto* response) -> absl::Status {
            LETHE_ASSIGN_OR_RETURN(const service::FailInput input, FromProto(request));
            LETHE_ASSIGN_OR_RETURN(const service::JobInfo job, jobs->Fail(input));
            response->set_state(static_cast<v1::JobState>(job.state));
            return absl::OkStatus();
          }),
  };
}

}  // namespace lethe::calls
