// One job, from its lease to its end: reads the tokens, goes on from the last checkpoint, computes
// and heartbeats, saves checkpoints, gives the artefact back.
//
// Stops between two steps where the lease is over (what it has made is thrown away), the job was
// cancelled, or the worker is asked to stop (a checkpoint is saved first). Nothing of a token is
// logged or said. Threads: compatible.
#ifndef LETHE_WORKER_RUN_JOB_H_
#define LETHE_WORKER_RUN_JOB_H_

#include <chrono>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/model/svdd_gate.h"
#include "core/program/event_log.h"
#include "lethe/v1/worker_service.pb.h"
#include "worker/link.h"
#include "worker/metrics.h"

namespace lethe::worker {

// All outlive the call.
struct RunContext {
  Link* link = nullptr;
  model::Runtime runtime;
  program::EventLog* log = nullptr;
  Metrics* metrics = nullptr;
  std::string build;    // what checkpoints are bound to
  std::string backend;  // its name
  std::string device;   // its description
  absl::Duration checkpoint_time = absl::Seconds(60);
  uint64_t checkpoint_steps = 0;
  std::function<bool()> stop;  // any thread
};

enum class RunEnd {
  kSucceeded,
  kFailed,     // for good
  kRetry,      // given back after an error
  kCancelled,  // as the server wanted
  kStopped,    // given back as the worker stops
  kLost,       // the lease was over
};
absl::string_view RunEndName(RunEnd end);

// `sent`: when the call that was answered with `offer` was sent.
RunEnd RunJob(const RunContext& context,
              const v1::LeaseJobResponse& offer,
              std::chrono::steady_clock::time_point sent);

}  // namespace lethe::worker

#endif  // LETHE_WORKER_RUN_JOB_H_
