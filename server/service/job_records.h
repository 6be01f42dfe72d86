// The bytes of what the store keeps of a job (store::JobRecord): what it is, which is constant, and
// how it stands. Texts that a worker wrote are among the bytes of EncodeJobTexts alone, which are
// kept sealed under the key of the job; the rest is numbers, times and names.
//
// A blob that these functions would not have written is DATA_LOSS. Threads: functions without
// state. Cost: linear.
#ifndef LETHE_SERVER_SERVICE_JOB_RECORDS_H_
#define LETHE_SERVER_SERVICE_JOB_RECORDS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/service/job_types.h"

namespace lethe::service {

struct JobSpec {
  std::string tenant;  // names, as they were when it was submitted
  std::string memory;
  JobConfig config;
  MemoryConfig memory_config;
};
std::string EncodeJobSpec(const JobSpec& spec);
absl::StatusOr<JobSpec> DecodeJobSpec(absl::string_view blob);

struct JobFacts {
  int64_t submit_micros = 0;
  int64_t begin_micros = 0;  // 0: not yet, as the next ones
  int64_t end_micros = 0;
  int64_t not_before_micros = 0;
  uint32_t attempts = 0;
  uint32_t leases = 0;
  uint32_t restarts = 0;
  uint64_t checkpoints = 0;
  bool cancel = false;
  bool erased_since = false;
  bool snapshot = false;  // was taken; it may be empty
  std::string worker;
  JobFailure failure = JobFailure::kNone;
  bool from_worker = false;  // failure_message is
  JobProgress progress;
  // The texts.
  std::string failure_message;
  std::string manifest;  // of the artefact
  bool operator==(const JobFacts&) const = default;
};
// Empty where there are none.
std::string EncodeJobTexts(const JobFacts& facts);
absl::Status DecodeJobTexts(absl::string_view blob, JobFacts& facts);
// All but the texts, which are given sealed.
struct StoredJobFacts {
  JobFacts facts;
  std::string sealed_texts;
};
std::string EncodeJobFacts(const JobFacts& facts, absl::string_view sealed_texts);
absl::StatusOr<StoredJobFacts> DecodeJobFacts(absl::string_view blob);

// What stands in the manifest of an artefact beside the worker's own part.
struct ManifestFacts {
  std::string job;
  std::string memory_uid;
  std::string sha256;
  uint64_t bytes = 0;
  uint64_t tokens = 0;
  uint32_t restarts = 0;
  uint32_t leases = 0;
  std::string end_time;
};
// As long as they can be.
ManifestFacts LongestManifestFacts();
// JSON. INVALID_ARGUMENT names "manifest" for a worker's part that is no JSON object of at most
// kMaxManifestBytes and 16 levels, and for a whole of more than kMaxWholeManifestBytes.
absl::StatusOr<std::string> MakeManifest(const JobSpec& spec,
                                         const ManifestFacts& facts,
                                         absl::string_view worker);

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_JOB_RECORDS_H_
