// Training jobs as plain values: the same facts as proto/lethe/v1/job_service.proto and
// worker_service.proto. docs/jobs.md says what is promised.
#ifndef LETHE_SERVER_SERVICE_JOB_TYPES_H_
#define LETHE_SERVER_SERVICE_JOB_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/jobs/job_config.h"
#include "server/service/types.h"

namespace lethe::service {

inline constexpr size_t kMaxWorkerNameBytes = 64;                   // [A-Za-z0-9._:-]
inline constexpr size_t kMaxManifestBytes = size_t{16} << 10;       // the worker's part
inline constexpr size_t kMaxWholeManifestBytes = size_t{48} << 10;  // as it is kept
inline constexpr size_t kMaxOpenJobs = 1000;    // of a tenant, whatever its quota
inline constexpr size_t kMaxKeptJobs = 10'000;  // of a tenant, ended ones included

// Numbered as in proto/lethe/v1, as all here.
enum class JobState : uint8_t {
  kQueued = 1,
  kLeased = 2,   // a worker has it, and has not said anything yet
  kRunning = 3,  // and has
  kSucceeded = 4,
  kFailed = 5,
  kCancelled = 6,
};
inline constexpr size_t kJobStates = 6;
inline bool HasEnded(JobState state) { return state >= JobState::kSucceeded; }
// "queued", ...
absl::string_view JobStateName(JobState state);

// What can be said of a job is said in core/jobs, for all who say and read it.
using jobs::CalibrateConfig;
using jobs::JobConfig;
using jobs::JobKind;
using jobs::JobKindName;
using jobs::KindOf;
using jobs::TrainEncoderConfig;
using jobs::TrainLmConfig;

struct JobInput {
  std::string tenant;
  std::string memory;
  std::optional<JobConfig> config;
  std::string request_id;
};

struct JobProgress {
  uint64_t step = 0;
  uint64_t steps = 0;  // 0: not known
  double loss = 0.0;
  double tokens_per_second = 0.0;
  double mask_churn = 0.0;    // share of labels that changed since the last solve
  double seconds_left = 0.0;  // estimated; 0: not known
  bool operator==(const JobProgress&) const = default;
};

enum class JobFailure : uint8_t {
  kNone = 0,
  kWorkerLost = 1,   // the last worker stopped answering
  kWorkerError = 2,  // it failed, again and again
  kBadInput = 3,     // tokens and configuration do not go together; another try is of no use
  kMemoryGone = 4,   // deleted since the job was submitted
};
inline constexpr size_t kJobFailures = 4;  // without kNone
// "worker_lost", ...; empty for kNone.
absl::string_view JobFailureName(JobFailure failure);

struct JobArtefact {
  uint64_t bytes = 0;
  std::string sha256;    // hex
  std::string manifest;  // JSON
};

struct JobInfo {
  std::string tenant;
  std::string memory;
  std::string id;
  JobConfig config;
  JobState state = JobState::kQueued;
  bool cancel_requested = false;
  std::string submit_time;  // RFC 3339, UTC
  std::string begin_time;   // of the first lease; empty: none yet
  std::string end_time;
  std::string next_time;  // of a queued one that waits for its next attempt
  JobProgress progress;
  std::string worker;     // the last one, as it calls itself
  uint32_t attempts = 0;  // since the last checkpoint
  uint32_t leases = 0;    // in all
  uint32_t restarts = 0;  // because tokens of its snapshot were erased
  uint64_t tokens = 0;    // in its snapshot
  uint64_t checkpoints = 0;
  uint64_t checkpoint_step = 0;
  JobFailure failure = JobFailure::kNone;
  std::string failure_message;
  std::optional<JobArtefact> artefact;
  // Tokens that it was made from have been erased since it ended.
  bool erased_since = false;
  bool replayed = false;  // the answer to an earlier call with this request id
};

// --- Of workers.
struct LeaseInput {
  std::string worker;
  std::vector<JobKind> kinds;  // empty: any
  absl::Duration wait;         // for one to come; at most 30 seconds
};
// Names a lease; every call of a worker but the first has one.
struct LeaseName {
  std::string job;
  std::string token;
};
struct LeaseOffer {
  LeaseName lease;
  absl::Duration length;
  JobInfo job;
  MemoryConfig memory;
  // Of the checkpoint to go on from; 0 bytes: there is none.
  uint64_t checkpoint_bytes = 0;
  uint64_t checkpoint_step = 0;
};
struct HeartbeatReply {
  bool cancel = false;  // stop, and say so with FailJob
  absl::Duration length;
};
enum class WorkerEnd : uint8_t {
  kRetry = 1,      // something failed that may not fail again
  kFinal = 2,      // it will fail each time
  kStopping = 3,   // the worker stops in order; the job goes to another one
  kCancelled = 4,  // as the heartbeat's answer wanted
};
struct FailInput {
  LeaseName lease;
  WorkerEnd end = WorkerEnd::kRetry;
  std::string message;  // what a person can act on; nothing of a token
  std::optional<JobProgress> progress;
};

// A token as training reads it: without id, subject and labels.
struct TrainingToken {
  std::vector<double> key;
  std::vector<double> value;
  std::string payload;
};

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_JOB_TYPES_H_
