// Trains an encoder for recall: each step draws episodes from a set (recall_set.h), solves the
// problem of each over its projected keys, reads it with the queries, and goes back through the
// readout, the solution and the projections.
//
// The state is everything that the next step depends on: parameters, moments, counters, and of each
// token the weight and label that it had last, from which the next problem with it starts and its
// churn is counted. Checkpoint writes it to the bit; a resumed run ends with the bits of one that
// was not stopped, on any number of threads of the same build.
//
// What is written into an artefact is the encoder alone; weights of tokens are not in it.
#ifndef LETHE_CORE_MODEL_ENCODER_TRAINER_H_
#define LETHE_CORE_MODEL_ENCODER_TRAINER_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/encoder.h"
#include "core/model/encoder_episodes.h"
#include "core/model/optimizer.h"
#include "core/model/recall.h"
#include "core/model/recall_set.h"
#include "core/model/svdd_gate.h"

namespace lethe::model {

struct EncoderTrainerOptions {
  EncoderOptions encoder;
  OptimizerOptions optimizer;
  size_t memory = 64;   // tokens of an episode's memory, at most 512
  size_t local = 0;     // tokens of its local chunk
  size_t queries = 64;  // of an episode
  size_t episodes = 8;  // a step
  uint64_t seed = 1;    // of parameters and episodes

  friend bool operator==(const EncoderTrainerOptions&, const EncoderTrainerOptions&) = default;
};
// INVALID_ARGUMENT names the field. "episodes": the trainer would hold more than kMaxTrainerNumbers
// (limits.h): four arrays of parameters and WorkspaceNumbers (encoder_episodes.h).
absl::Status Validate(const EncoderTrainerOptions& options);

// Of a set that a trainer is for: a weight and a label each.
inline constexpr size_t kMaxTokens = size_t{1} << 28;

struct EncoderStepReport {
  uint64_t step = 0;
  RecallReport recall;  // before the step; loss is the mean of a query here
  UpdateReport update;
  GateCounters gates;
};

// RESOURCE_EXHAUSTED from any function that returns a status: no memory; nothing has changed. Not
// so for the packing buffers of a product (matmul.h, half a megabyte a thread): where a thread of
// the team does not get one, the process ends.
template <typename T>
class EncoderTrainer {
 public:
  // For sets of `tokens` tokens, at most kMaxTokens. INVALID_ARGUMENT names the field.
  static absl::StatusOr<EncoderTrainer> Create(const EncoderTrainerOptions& options, size_t tokens);
  // DATA_LOSS "checkpoint: ...": not what Checkpoint wrote, or counters, moments, weights and
  // labels that no run comes to.
  static absl::StatusOr<EncoderTrainer> Restore(std::string_view bytes);

  // INVALID_ARGUMENT "set": not of the size or the dimensions that this trainer is for.
  // FAILED_PRECONDITION "step": kMaxSteps are done. After an error nothing has changed.
  absl::StatusOr<EncoderStepReport> Step(const Runtime& runtime, const RecallSet<T>& set);

  // Recall in `episodes` episodes of their own, of any set with as many tokens as one episode
  // has or more; loss is the mean of a query. Problems start afresh. Changes no state.
  // CANCELLED once `stop`, which is asked before each batch of options().episodes, says so.
  absl::StatusOr<EncoderStepReport> Evaluate(
      const Runtime& runtime,
      const RecallSet<T>& set,
      uint64_t episodes,
      const std::function<bool()>& stop = [] { return false; });

  std::string Checkpoint() const;
  std::string Artefact() const;

  const EncoderTrainerOptions& options() const { return options_; }
  const Encoder& encoder() const { return encoder_; }
  std::span<const T> values() const { return values_; }
  uint64_t step() const { return optimizer_.step; }
  bool done() const { return step() >= options_.optimizer.steps; }

 private:
  EncoderTrainer(const EncoderTrainerOptions& options, Encoder encoder);
  static absl::StatusOr<EncoderTrainer> Read(std::string_view checkpoint);
  absl::StatusOr<EncoderStepReport> Train(const Runtime& runtime, const RecallSet<T>& set);
  absl::Status Check(const RecallSet<T>& set) const;
  EpisodeShape shape() const { return {options_.memory, options_.local, options_.queries}; }
  std::vector<Episode> Draw(const RecallSet<T>& set,
                            uint64_t stream,
                            uint64_t first,
                            size_t count) const;

  EncoderTrainerOptions options_;
  Encoder encoder_;
  std::vector<T> values_;
  OptimizerState<T> optimizer_;
  std::vector<T> last_weights_;  // a token
  std::vector<uint8_t> last_labels_;

  // Not part of the state.
  std::vector<T> gradient_;
  EpisodeWorkspace<T> workspace_;
};

template <typename T>
struct TrainedEncoder {
  Encoder encoder;
  std::vector<T> values;
};
// DATA_LOSS "artefact: ...".
template <typename T>
absl::StatusOr<TrainedEncoder<T>> ReadEncoderArtefact(std::string_view bytes);

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_ENCODER_TRAINER_H_
