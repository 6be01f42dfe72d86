// A job's configuration (core/jobs/job_config.h) at the server: whether a job of a memory can be
// run, the bytes that are stored, the JSON of manifests. Threads: functions without state.
#ifndef LETHE_SERVER_SERVICE_JOB_CONFIG_H_
#define LETHE_SERVER_SERVICE_JOB_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/service/job_types.h"

namespace lethe::service {

// Of a job that reads a memory of this configuration: core/training/job_options.h. INVALID_ARGUMENT
// names the field: "train_lm.heads: must divide ...".
absl::Status CheckJobConfig(const JobConfig& config,
                            const MemoryConfig& memory,
                            uint64_t most_file_bytes);

// The bytes that the store keeps. DATA_LOSS for what EncodeJobConfig would not have written.
std::string EncodeJobConfig(const JobConfig& config);
absl::StatusOr<JobConfig> DecodeJobConfig(absl::string_view blob);

// As a JSON object with the fields in their order, for manifests.
std::string JobConfigJson(const JobConfig& config);

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_JOB_CONFIG_H_
