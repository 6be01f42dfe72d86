// A training job under way: steps, checkpoints, and at the end the artefact. No matter what is
// trained, whoever runs it does the same.
//
//     BeginRun -> Step ... Step -> Finish             a new run
//     BeginRun with the bytes of Checkpoint           goes on as the run that wrote them would have
//
// The artefact depends on configuration, tokens, backend and build, not on where a run was
// interrupted, nor on how many threads there are. What Finish tells beside it is for the manifest.
//
// Errors: INVALID_ARGUMENT for what will fail each time: tokens and configuration do not go
// together; the message names the field or says "tokens: ...", and nothing of a token. DATA_LOSS
// "checkpoint: ...". Others may not happen again. Threads: compatible; the runtime's team works.
#ifndef LETHE_CORE_TRAINING_JOB_RUN_H_
#define LETHE_CORE_TRAINING_JOB_RUN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/jobs/job_config.h"
#include "core/model/svdd_gate.h"
#include "core/training/job_options.h"
#include "core/training/token_data.h"

namespace lethe::training {

using Json = nlohmann::ordered_json;

struct StepFacts {
  double loss = 0.0;    // of the step where there is one; 0 otherwise
  uint64_t tokens = 0;  // that it computed with
  double churn = 0.0;   // share of labels unlike those before
};

struct RunResult {
  std::string artefact;
  Json facts;  // an object
};

// What binds a checkpoint to its run.
struct RunIdentity {
  std::string data_sha256;  // hex, of what the run reads
  std::string build;        // of the program
};

class JobRun {
 public:
  virtual ~JobRun() = default;
  JobRun(const JobRun&) = delete;
  JobRun& operator=(const JobRun&) = delete;

  virtual uint64_t step() const = 0;
  virtual uint64_t steps() const = 0;
  bool done() const { return step() >= steps(); }
  // Requires !done().
  absl::StatusOr<StepFacts> Step(const model::Runtime& runtime);
  std::string Checkpoint() const;
  // Requires done(). CANCELLED once `stop` says so, which is asked now and then; may be called
  // again.
  absl::StatusOr<RunResult> Finish(const model::Runtime& runtime,
                                   const std::function<bool()>& stop);

  // The builds that have computed it, in order; more than one: resuming another build's checkpoint
  // gives an equally good, not an equal artefact.
  const std::vector<std::string>& builds() const { return builds_; }

 protected:
  JobRun() = default;
  virtual absl::StatusOr<StepFacts> DoStep(const model::Runtime& runtime) = 0;
  virtual std::string State() const = 0;
  virtual absl::StatusOr<RunResult> DoFinish(const model::Runtime& runtime,
                                             const std::function<bool()>& stop) = 0;
  // What happened in the solver, and steps whose gradient was not finite; over all steps.
  model::GateCounters counters_;
  uint64_t skipped_ = 0;

 private:
  friend absl::StatusOr<std::unique_ptr<JobRun>> BeginRun(const jobs::JobConfig&,
                                                          const MemoryShape&,
                                                          TokenData,
                                                          const RunIdentity&,
                                                          absl::string_view);
  std::string config_;  // as text
  RunIdentity identity_;
  std::vector<std::string> builds_;
};

// `checkpoint` empty: from the beginning. Requires a configuration that CheckConfig accepts.
absl::StatusOr<std::unique_ptr<JobRun>> BeginRun(const jobs::JobConfig& config,
                                                 const MemoryShape& memory,
                                                 TokenData data,
                                                 const RunIdentity& identity,
                                                 absl::string_view checkpoint);

// The configuration as text, a field a line, from which its digest is made.
std::string ConfigText(const jobs::JobConfig& config);

// --- The kinds of runs; `state` is what State() said, or empty.
absl::StatusOr<std::unique_ptr<JobRun>> BeginCalibration(const jobs::CalibrateConfig& config,
                                                         const MemoryShape& memory,
                                                         TokenData data,
                                                         absl::string_view state);
absl::StatusOr<std::unique_ptr<JobRun>> BeginEncoder(const jobs::TrainEncoderConfig& config,
                                                     const MemoryShape& memory,
                                                     TokenData data,
                                                     absl::string_view state);
absl::StatusOr<std::unique_ptr<JobRun>> BeginLanguageModel(const jobs::TrainLmConfig& config,
                                                           TokenData data,
                                                           absl::string_view state);

}  // namespace lethe::training

#endif  // LETHE_CORE_TRAINING_JOB_RUN_H_
