// AdamW, its learning rate, and clipping (Loshchilov and Hutter 2019).
//
//     m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g.g
//     x = x - rate (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + decay x)
//
// The last term only where a part decays (parameters.h). The gradient is first scaled down to the
// length `clip`, where it is longer. A gradient that is not finite, or that is longer than
// MaxMoment() after that, so that its squares might not be, changes nothing and is counted.
//
//     rate(t) = peak t / warm_up                                    for t < warm_up
//               last + (peak - last) (1 + cos(pi x)) / 2            x from 0 to 1 at t = steps
//
// Cost: about ten operations a parameter. Deterministic: the length of the gradient is summed in
// double in blocks of one size, and the blocks in order.
#ifndef LETHE_CORE_MODEL_OPTIMIZER_H_
#define LETHE_CORE_MODEL_OPTIMIZER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "core/base/team.h"
#include "core/model/parameters.h"

namespace lethe::model {

// No run gets this far.
inline constexpr uint64_t kMaxSteps = uint64_t{1} << 32;

struct OptimizerOptions {
  double peak_rate = 3e-3;
  double last_rate = 3e-4;
  uint64_t warm_up = 100;  // steps
  // Of the whole schedule, at most kMaxSteps; the rate stays at last_rate after them.
  uint64_t steps = 6000;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double decay = 0.1;
  double epsilon = 1e-8;
  double clip = 1.0;  // 0: not

  friend bool operator==(const OptimizerOptions&, const OptimizerOptions&) = default;
};
// INVALID_ARGUMENT names the field: "optimizer.beta1".
absl::Status Validate(const OptimizerOptions& options);

// For the step that is number `step`, from 1.
double RateAt(const OptimizerOptions& options, uint64_t step);

// What a checkpoint keeps of the optimiser.
template <typename T>
struct OptimizerState {
  std::vector<T> mean;     // m
  std::vector<T> squares;  // v
  uint64_t step = 0;       // t, of the last update
  uint64_t skipped = 0;    // gradients that were left out; they count as steps
};

// What no entry of the mean can be above, nor that of the squares above its square.
template <typename T>
constexpr double MaxMoment() {
  return sizeof(T) == sizeof(double) ? 0x1p+510 : 0x1p+62;
}
// Whether a run can have come to it. INVALID_ARGUMENT names what cannot be: "step", "skipped",
// "mean", "squares".
template <typename T>
absl::Status Validate(const OptimizerState<T>& state);

// FAILED_PRECONDITION "step: ..." after kMaxSteps.
absl::Status CheckMoreSteps(uint64_t step);

struct UpdateReport {
  double gradient_length = 0.0;  // before clipping
  double rate = 0.0;
  bool skipped = false;
};

// One step. Requires arrays of the table's size and step < kMaxSteps. Once something has changed it
// asks for no more memory.
template <typename T>
UpdateReport Update(Team* team,
                    const OptimizerOptions& options,
                    const ParameterTable& table,
                    std::span<const T> gradient,
                    OptimizerState<T>* state,
                    std::span<T> values);

// sqrt(sum x_i^2)
template <typename T>
double Length(Team* team, std::span<const T> x);

}  // namespace lethe::model

#endif  // LETHE_CORE_MODEL_OPTIMIZER_H_
