// What the benches of training share: one core to compute on, text, kinds of attention at equal
// state, and what came of a model.
#ifndef LETHE_TESTS_BENCH_TRAINING_H_
#define LETHE_TESTS_BENCH_TRAINING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/team.h"
#include "core/batched/backend.h"
#include "core/model/language_trainer.h"
#include "core/model/samples.h"

namespace lethe::bench {

// Everything on the caller's thread, so that its processor time is the cost.
class OneCore {
 public:
  OneCore();
  model::Runtime get() { return {&team_, backend_.get(), {}}; }
  std::string description() const { return backend_->description(); }

 private:
  Team team_;
  std::unique_ptr<batched::Backend> backend_;
};

// Paragraphs of made-up words: a few that are frequent everywhere, and in each paragraph two or
// three rare ones that come again and again, so that it pays to look far back. At least `bytes`.
std::string MadeUpText(size_t bytes, uint64_t seed);

// The whole file; NOT_FOUND, or INVALID_ARGUMENT where it has fewer bytes than that.
absl::StatusOr<std::string> ReadText(const std::string& path, size_t at_least);

struct Evaluation {
  double loss = 0.0;      // nats a target
  double accuracy = 0.0;  // targets that were the likeliest token
  uint64_t targets = 0;
  // Of the longest prefix, a head: tokens with weight, mean over layers, heads and samples.
  double supports = 0.0;
  uint64_t problems = 0;
  uint64_t failed = 0;  // unsolved, or without weights
};
// Of samples [first, first + count) of `source`.
absl::StatusOr<Evaluation> Evaluate(const model::Runtime& runtime,
                                    const model::LanguageTrainer<float>& trainer,
                                    const model::SampleSource& source,
                                    uint64_t first,
                                    uint64_t count);

// The same sizes with another kind of attention, which keeps at least `bytes` a layer, or the most
// that it can: windows by tokens, DeltaNet and linear attention by fewer heads. (A head of theirs
// is a matrix of (width / heads)^2 numbers, whatever the length.)
model::MixerOptions AtEqualState(const model::MixerOptions& hybrid,
                                 model::AttentionKind kind,
                                 double bytes);

struct TrainedModel {
  model::AttentionKind kind = model::AttentionKind::kFull;
  size_t parameters = 0;
  double state = 0.0;  // bytes a layer at the end of a sample
  Evaluation held_out;
  double seconds = 0.0;  // processor time of the training
  uint64_t skipped = 0;  // steps whose gradient was left out
};
// Trains to the end of the schedule.
absl::StatusOr<TrainedModel> TrainModel(const model::Runtime& runtime,
                                        const model::LanguageTrainerOptions& options,
                                        const model::SampleSource& training,
                                        const model::SampleSource& held_out,
                                        uint64_t held_out_samples);

struct Spread {
  double mean = 0.0, least = 0.0, most = 0.0;
};
Spread SpreadOf(const std::vector<double>& values);  // requires one

}  // namespace lethe::bench

#endif  // LETHE_TESTS_BENCH_TRAINING_H_
