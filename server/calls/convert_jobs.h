// Between the wire (proto/lethe/v1/job_service.proto and worker_service.proto) and the service's
// plain values, as convert.h.
#ifndef LETHE_SERVER_CALLS_CONVERT_JOBS_H_
#define LETHE_SERVER_CALLS_CONVERT_JOBS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lethe/v1/job_service.pb.h"
#include "lethe/v1/worker_service.pb.h"
#include "server/service/job_types.h"

namespace lethe::calls {

// What is absent of a configuration has its default.
service::JobInput FromProto(const v1::SubmitJobRequest& request);
// Nothing for UNSPECIFIED; INVALID_ARGUMENT names "state".
absl::StatusOr<std::optional<service::JobState>> FromProto(v1::JobState state);
service::JobProgress FromProto(const v1::JobProgress& progress);
template <typename Request>
std::optional<service::JobProgress> ProgressOf(const Request& request) {
  if (!request.has_progress()) return std::nullopt;
  return FromProto(request.progress());
}
service::LeaseName FromProto(const v1::JobLease& lease);
// INVALID_ARGUMENT names a kind that this version does not know, and a wait out of range.
absl::StatusOr<service::LeaseInput> FromProto(const v1::LeaseJobRequest& request);
// INVALID_ARGUMENT names "end".
absl::StatusOr<service::FailInput> FromProto(const v1::FailJobRequest& request);

void ToProto(const service::JobInfo& from, v1::Job* to);
void ToProto(const service::JobArtefact& from, v1::JobArtefact* to);
void ToProto(const std::optional<service::LeaseOffer>& from, v1::LeaseJobResponse* to);
void ToProto(const service::HeartbeatReply& from, v1::HeartbeatResponse* to);
// Consumes the tokens.
void ToProto(std::vector<service::TrainingToken> from, v1::TrainingTokens* to);

}  // namespace lethe::calls

#endif  // LETHE_SERVER_CALLS_CONVERT_JOBS_H_
