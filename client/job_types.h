// Training jobs as the client's plain values; the fields are those of
// proto/lethe/v1/job_service.proto, which says what they mean. What can be said of a job is
// core/jobs/job_config.h.
#ifndef LETHE_CLIENT_JOB_TYPES_H_
#define LETHE_CLIENT_JOB_TYPES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/jobs/job_config.h"

namespace lethe::client {

using jobs::CalibrateConfig;
using jobs::JobConfig;
using jobs::JobKind;
using jobs::TrainEncoderConfig;
using jobs::TrainLmConfig;

// Numbered as on the wire.
enum class JobState : uint8_t {
  kQueued = 1,
  kLeased = 2,
  kRunning = 3,
  kSucceeded = 4,
  kFailed = 5,
  kCancelled = 6,
};
inline bool HasEnded(JobState state) { return state >= JobState::kSucceeded; }
// "queued", ...
absl::string_view ToText(JobState state);
// INVALID_ARGUMENT names those there are.
absl::StatusOr<JobState> ParseJobState(absl::string_view text);

enum class JobFailure : uint8_t {
  kNone = 0,
  kWorkerLost = 1,
  kWorkerError = 2,
  kBadInput = 3,
  kMemoryGone = 4,
};
// "worker-lost", ...; empty for kNone.
absl::string_view ToText(JobFailure failure);

struct NewJob {
  std::string tenant;
  std::string memory;
  JobConfig config;
  // A repeated call with the same id returns the first job. Empty: the client makes one, so that
  // it can repeat the call after a lost answer.
  std::string request_id = {};
};

struct JobProgress {
  uint64_t step = 0;
  uint64_t steps = 0;
  double loss = 0.0;
  double tokens_per_second = 0.0;
  double mask_churn = 0.0;
  double seconds_left = 0.0;
};

struct JobArtefact {
  uint64_t bytes = 0;
  std::string sha256;
  std::string manifest;
};

struct Job {
  std::string tenant;
  std::string id;
  std::string memory;
  JobKind kind = JobKind::kCalibrate;
  std::optional<JobConfig> config;  // absent: of a kind that this client does not know
  JobState state = JobState::kQueued;
  bool cancel_requested = false;
  std::string submit_time;  // RFC 3339, as all times here; empty for what has not come
  std::string begin_time;
  std::string end_time;
  std::string next_time;
  JobProgress progress;
  std::string worker;
  uint32_t attempts = 0;
  uint32_t leases = 0;
  uint32_t restarts = 0;
  uint64_t tokens = 0;
  uint64_t checkpoints = 0;
  uint64_t checkpoint_step = 0;
  JobFailure failure = JobFailure::kNone;
  std::string failure_message;
  std::optional<JobArtefact> artefact;
  bool erased_since = false;
  bool replayed = false;
};

}  // namespace lethe::client

#endif  // LETHE_CLIENT_JOB_TYPES_H_
