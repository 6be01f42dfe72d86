// From what is asked of a job (core/jobs/job_config.h) to the options of what computes it: the one
// place where the two meet. The server asks it whether a job can be run at all, the worker runs it.
//
// Errors: INVALID_ARGUMENT begins with the field of the configuration, "train_lm.box: ...".
// Threads: functions without state.
#ifndef LETHE_CORE_TRAINING_JOB_OPTIONS_H_
#define LETHE_CORE_TRAINING_JOB_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/batched/problem.h"
#include "core/jobs/job_config.h"
#include "core/model/encoder_trainer.h"
#include "core/model/language_trainer.h"

namespace lethe::training {

// What a job knows of its memory beside the tokens.
struct MemoryShape {
  batched::KernelKind kernel = batched::KernelKind::kRbf;
  double parameter = 1.0;
  size_t key_dimension = 0;
  size_t value_dimension = 0;
};

// Whether a worker can run it: every field within its bounds, the fields together as what computes
// wants them, and checkpoints and artefact of the parameters at most `most_file_bytes`. What
// depends on the tokens themselves is not looked at. Cost: a table of parameters' names.
absl::Status CheckConfig(const jobs::JobConfig& config,
                         const MemoryShape& memory,
                         uint64_t most_file_bytes);

// Of a configuration that CheckConfig has accepted. An encoder's kernel parameter starts as the
// memory's where it keeps kernel and dimension of keys and names none.
model::EncoderTrainerOptions OptionsOf(const jobs::TrainEncoderConfig& config,
                                       const MemoryShape& memory);
model::LanguageTrainerOptions OptionsOf(const jobs::TrainLmConfig& config);
// The memory's own for kMemory.
batched::KernelKind KernelOf(jobs::JobKernel kernel, const MemoryShape& memory);

// "rbf", "laplacian", "exp_dot", "dot"
absl::string_view KernelName(batched::KernelKind kind);

}  // namespace lethe::training

#endif  // LETHE_CORE_TRAINING_JOB_OPTIONS_H_
