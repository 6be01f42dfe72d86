// Between the client's values of job_types.h and proto/lethe/v1/job_service.proto, as convert.h.
// Threads: functions without state.
#ifndef LETHE_CLIENT_CONVERT_JOBS_H_
#define LETHE_CLIENT_CONVERT_JOBS_H_

#include <optional>

#include "client/job_types.h"
#include "lethe/v1/job_service.pb.h"

namespace lethe::client::convert {

v1::SubmitJobRequest ToWire(const NewJob& job);
JobArtefact FromWire(const v1::JobArtefact& wire);
Job FromWire(const v1::Job& wire);

// What is absent has its default. Nothing for a kind, or with a field, that is not known here: of a
// newer server.
std::optional<JobConfig> ConfigOf(const v1::Job& wire);

}  // namespace lethe::client::convert

#endif  // LETHE_CLIENT_CONVERT_JOBS_H_
