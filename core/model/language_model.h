// A small causal language model: what every kind of attention (mixer.h) is trained and compared in.
//
//     x = E[tokens] + P[positions]
//     a layer:  x = x + mixer(norm(x)),  x = x + mlp(norm(x))
//     logits = norm(x) E'
//
// E is read twice, so its gradient has two parts. No biases but those of rates, no dropout.
//
// Shapes: `sequences` sequences of `length` <= block tokens, one after the other; targets the same,
// kNoTarget where nothing is to be predicted. The loss is the mean over what is.
//
// Cost a token: 6 operations a parameter forward and back, and the mixer's. Memory of a workspace:
// about (9 width + 2 mlp_width) numbers a token and layer, and the solver's results (kHybrid).
// Deterministic: the bits of loss and gradient depend on values, tokens, options and the build, not
// on threads. Threads: a model can be used by several at once, each with its own workspace; a
// Runtime by one at a time.
#ifndef LETHE_CORE_MODEL_LANGUAGE_MODEL_H_
#define LETHE_CORE_MODEL_LANGUAGE_MODEL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/cross_entropy.h"
#include "core/model/mixer.h"
#include "core/model/mlp.h"
#include "core/model/norm.h"

namespace lethe::model {

struct LanguageModelOptions {
  size_t layers = 4;
  size_t block = 256;
  size_t vocabulary = 256;
  MixerOptions mixer;  // of every layer; mixer.width is the model's
  MlpKind mlp = MlpKind::kGelu;
  size_t mlp_width = 0;  // h; 0: 4 width
  NormKind norm = NormKind::kRms;
  double deviation = 0.02;  // of matrices before training

  size_t mlp_inner() const { return mlp_width == 0 ? 4 * mixer.width : mlp_width; }
  friend bool operator==(const LanguageModelOptions&, const LanguageModelOptions&) = default;
};
// INVALID_ARGUMENT names the field: "model.heads: ...". At most 2^28 parameters.
absl::Status Validate(const LanguageModelOptions& options);

// How many numbers a workspace holds after Forward and Backward of `sequences` whole blocks, the
// solver's results included; of what each thread has for itself, that of one thread. An upper
// bound. Requires valid options and at most 2^20 tokens.
uint64_t WorkspaceNumbers(const LanguageModelOptions& options, size_t sequences);

template <typename T>
struct LanguageModelWorkspace {
  struct Layer {
    Buffer<T> x, mixer_in, middle, mlp_in;
    MixerWorkspace<T> mixer;
    MlpWorkspace<T> mlp;
  };
  std::vector<Layer> layers;
  Buffer<T> last, last_normed, logits;
  std::vector<T> losses;
  std::vector<uint32_t> tokens, positions, targets;
  size_t sequences = 0;
  size_t counted = 0;  // targets that are one

  Buffer<T> x_bar, branch, branch_bar;
  MixerScratch<T> mixer;
  MlpScratch<T> mlp;
};

struct LossReport {
  double loss = 0.0;  // nats a target, mean
  size_t targets = 0;
  GateCounters gates;
};

class LanguageModel {
 public:
  static absl::StatusOr<LanguageModel> Create(const LanguageModelOptions& options);

  const LanguageModelOptions& options() const { return options_; }
  const ParameterTable& table() const { return table_; }

  // Requires `values` of the table's size, here and below.
  template <typename T>
  void Initialise(uint64_t seed, std::span<T> values) const;

  // INVALID_ARGUMENT: "tokens", "targets" (sizes, numbers outside the vocabulary); or what the
  // solver answers.
  template <typename T>
  absl::StatusOr<LossReport> Forward(const Runtime& runtime,
                                     std::span<const T> values,
                                     size_t sequences,
                                     std::span<const uint32_t> tokens,
                                     std::span<const uint32_t> targets,
                                     LanguageModelWorkspace<T>* workspace) const;

  // Of the last Forward with this workspace and these values; once. Sets `gradient`.
  template <typename T>
  absl::Status Backward(const Runtime& runtime,
                        std::span<const T> values,
                        LanguageModelWorkspace<T>* workspace,
                        std::span<T> gradient) const;

  // After a Forward: probabilities of the next token, a row a token.
  template <typename T>
  static Matrix<T> Probabilities(const LanguageModelWorkspace<T>& workspace) {
    return workspace.logits.get();
  }

 private:
  struct Layer {
    size_t mixer_gain = 0, mlp_gain = 0, up = 0, down = 0;
    MixerParts mixer;
  };

  explicit LanguageModel(const LanguageModelOptions& options);

  LanguageModelOptions options_;
  ParameterTable table_;
  size_t embedding_ = 0;
  size_t positions_ = 0;
  size_t last_gain_ = 0;
  std::vector<Layer> layers_;
};

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_LANGUAGE_MODEL_H_
