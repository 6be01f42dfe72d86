// Trains a language model, a step at a time, so that whoever calls can stop between any two.
//
// The state is everything that the next step depends on: parameters, the optimiser's moments and
// counters, and the number of the next sample. Checkpoint writes it to the bit, and a trainer made
// of it goes on as the one that wrote it would have: the same bits, on any number of threads of the
// same build (and on any machine whose Runtime is the CPU's).
//
// Bytes: a line of text that names format and version, one byte with the size of T, the options,
// the arrays; little-endian (state_bytes.h). There is no digest in them: who stores them has one.
#ifndef LETHE_CORE_MODEL_LANGUAGE_TRAINER_H_
#define LETHE_CORE_MODEL_LANGUAGE_TRAINER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/language_model.h"
#include "core/model/optimizer.h"
#include "core/model/samples.h"

namespace lethe::model {

struct LanguageTrainerOptions {
  LanguageModelOptions model;
  OptimizerOptions optimizer;
  size_t batch = 16;  // sequences a step
  uint64_t seed = 1;  // of the parameters at first

  friend bool operator==(const LanguageTrainerOptions&, const LanguageTrainerOptions&) = default;
};
// INVALID_ARGUMENT names the field. "batch": above 2^20 tokens, or the trainer would hold more than
// kMaxTrainerNumbers (limits.h): four arrays of parameters and WorkspaceNumbers (language_model.h).
// What further threads have for themselves comes on top: 128 numbers a token of a block for softmax
// attention, for DeltaNet up to (36 + block / 32) d^2 with d = width / heads.
absl::Status Validate(const LanguageTrainerOptions& options);

struct StepReport {
  uint64_t step = 0;  // its number, from 1
  LossReport loss;    // before the step
  UpdateReport update;
  size_t tokens = 0;
};

// RESOURCE_EXHAUSTED from any function that returns a status: no memory; nothing has changed. Not
// so for the packing buffers of a product (matmul.h, half a megabyte a thread): where a thread of
// the team does not get one, the process ends.
template <typename T>
class LanguageTrainer {
 public:
  static absl::StatusOr<LanguageTrainer> Create(const LanguageTrainerOptions& options);
  // DATA_LOSS "checkpoint: ...": not what Checkpoint wrote, or counters, moments and cursor that no
  // run comes to. All of it is looked at before anything is believed; memory is bounded by the size
  // of `bytes`.
  static absl::StatusOr<LanguageTrainer> Restore(std::string_view bytes);

  // Draws the next samples and updates. INVALID_ARGUMENT "source": longer than the model's block,
  // or tokens outside its vocabulary. FAILED_PRECONDITION "step": kMaxSteps are done. After an
  // error nothing has changed.
  absl::StatusOr<StepReport> Step(const Runtime& runtime, const SampleSource& source);

  // The mean loss over samples [first, first + count), a batch at a time; changes nothing but the
  // workspace.
  absl::StatusOr<LossReport> Evaluate(const Runtime& runtime,
                                      const SampleSource& source,
                                      uint64_t first,
                                      uint64_t count);

  std::string Checkpoint() const;
  // What is left when training is over: options of the model and parameters.
  std::string Artefact() const;

  const LanguageTrainerOptions& options() const { return options_; }
  const LanguageModel& model() const { return model_; }
  std::span<const T> values() const { return values_; }
  uint64_t step() const { return optimizer_.step; }
  uint64_t next_sample() const { return next_sample_; }
  bool done() const { return step() >= options_.optimizer.steps; }

 private:
  LanguageTrainer(const LanguageTrainerOptions& options, LanguageModel model);
  static absl::StatusOr<LanguageTrainer> Read(std::string_view checkpoint);
  absl::StatusOr<LossReport> Forward(const Runtime& runtime,
                                     const SampleSource& source,
                                     uint64_t first,
                                     size_t count);

  LanguageTrainerOptions options_;
  LanguageModel model_;
  std::vector<T> values_;
  OptimizerState<T> optimizer_;
  uint64_t next_sample_ = 0;

  // Not part of the state.
  std::vector<T> gradient_;
  LanguageModelWorkspace<T> workspace_;
  std::vector<uint32_t> tokens_, targets_;
};

// A model as an artefact holds it.
template <typename T>
struct TrainedLanguageModel {
  LanguageModel model;
  std::vector<T> values;
};
// DATA_LOSS "artefact: ...".
template <typename T>
absl::StatusOr<TrainedLanguageModel<T>> ReadLanguageArtefact(std::string_view bytes);

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_LANGUAGE_TRAINER_H_
