// The first half of a solution: which points carry weight, by an accelerated gradient method.
//
//     x+ = P(y - (1/L) (2 K y + rho y - diag(K))),   y = x+ + beta (x+ - x)
//
// P is the projection (projection_search.h), beta Nesterov's sequence, begun anew when the step
// turns against the momentum, <y - x+, x+ - x> > 0.
//
// What a backend supplies, Steps::Real being float or double:
//
//     Numbers<Real>& numbers()
//     void PowerStart()               y = the numbers of PowerSequence
//     Real PowerSquare()              <y, y>
//     void PowerStep(Real by)         y = K (by y)
//     void BeginEqual()               x = y = 1/n
//     void BeginAtStart()             x = y = the nearest feasible point to the caller's weights
//     void ForgetLabels()             no label is as any that follows
//     bool ReadLabels()               labels of x by its exact 0 and C; whether they are as before
//     void Descend(Real step)         v = y - step (2 K y + rho y - diag(K))
//     Real Project(Real guess)        x = P(v), the x before is kept; returns the multiplier
//     Real Turned()                   <y - x, x - the x before>
//     void Restart()                  y = x
//     void Extrapolate(Real beta)     y = x + beta (x - the x before)
#ifndef LETHE_CORE_BATCHED_METHOD_FISTA_H_
#define LETHE_CORE_BATCHED_METHOD_FISTA_H_

#include "core/batched/method/numbers.h"

namespace lethe::batched {

// Signs and sizes without a pattern, the same for every problem: a start for the power iteration
// that is orthogonal to no eigenvector, with a part along (1, ..., 1), where a kernel of positive
// values has most.
struct PowerSequence {
  uint32_t state = 0x9e3779b9U;

  template <typename T>
  LETHE_STEP T Next() {
    state = state * 1664525U + 1013904223U;
    return 1 + static_cast<T>(static_cast<int32_t>(state)) * T(0x1p-32);
  }
};

// A number that is rarely below the largest eigenvalue of K, and then by little.
template <typename Steps>
LETHE_STEP typename Steps::Real LargestEigenvalue(int iterations, Steps& steps) {
  using T = typename Steps::Real;
  const T row_sum = steps.numbers().row_sum;
  if (iterations == 0) return row_sum;
  steps.PowerStart();
  T square = steps.PowerSquare();
  T estimate = row_sum;
  for (int i = 0; i < iterations; ++i) {
    if (!(square > 0)) return row_sum;
    steps.PowerStep(1 / std::sqrt(square));
    square = steps.PowerSquare();
    estimate = std::sqrt(square);
  }
  return std::min(row_sum, T(1.1) * estimate);
}

// Requires a loaded problem. Leaves x, feasible to a few roundings, and its labels.
template <typename Steps>
LETHE_STEP void RunFista(const Options& options, bool warm, Steps& steps) {
  using T = typename Steps::Real;
  constexpr int kLook = 5;  // iterations between two looks at the labels
  auto& numbers = steps.numbers();
  const T lipschitz = 2 * LargestEigenvalue(options.power_iterations, steps) + numbers.ridge;
  const T step = lipschitz > 0 ? 1 / lipschitz : T{1};
  if (warm) {
    steps.BeginAtStart();
  } else {
    steps.BeginEqual();
  }
  T momentum = 1;
  T threshold = 0;
  numbers.iterations = 0;
  int stable = 0;
  steps.ForgetLabels();
  for (int iteration = 0; iteration < options.iterations; ++iteration) {
    if (iteration % kLook == 0 && iteration > 0 && options.stable_iterations > 0) {
      stable = steps.ReadLabels() ? stable + kLook : 0;
      if (stable >= options.stable_iterations) break;
    }
    ++numbers.iterations;
    steps.Descend(step);
    threshold = steps.Project(threshold);
    if (steps.Turned() > 0) {
      momentum = 1;
      steps.Restart();
      continue;
    }
    const T next = (1 + std::sqrt(1 + 4 * momentum * momentum)) / 2;
    const T beta = (momentum - 1) / next;
    momentum = next;
    steps.Extrapolate(beta);
  }
  steps.ReadLabels();
}

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_METHOD_FISTA_H_
