// The judge of batched solutions: straight from the definition in double, sharing no code with any
// backend.
#ifndef LETHE_TESTS_BATCHED_JUDGE_H_
#define LETHE_TESTS_BATCHED_JUDGE_H_

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/batched/problem.h"

namespace lethe::batched {

// K of problem b, from its points or as given.
template <typename T>
Eigen::MatrixXd GramOf(const Batch<T>& batch, size_t b);

struct Verdict {
  double gap = 0.0;          // of the weights at the reported threshold; both ends, the larger
  double mass_error = 0.0;   // |sum a - 1|
  double outside = 0.0;      // by how much a weight leaves [0, C]
  bool labels_match = true;  // 0, C and between, in the precision of the batch
  bool thresholds_ordered = true;
};
template <typename T>
Verdict JudgeSolution(const Batch<T>& batch, size_t b, const Solution<T>& solution);

// The derivative of L = sum_i weights_i a_i along a direction in everything that problem b of a
// batch with points is made of, at fixed labels: central differences, extrapolated once, of the
// linear system (8) at those labels in 64-bit significands (long double). Requires a margin.
struct Direction {
  std::vector<double> points;  // n x dimension
  double parameter = 0.0;
  double box = 0.0;
  double ridge = 0.0;
};
double DerivativeAlong(const Batch<double>& batch,
                       size_t b,
                       std::span<const uint8_t> labels,
                       std::span<const double> weights,
                       const Direction& direction,
                       double step);

// The optimum by trying every way to label the points. Requires n <= 8 and a positive definite
// K + (rho/2) I. Cost 3^n small solves.
struct Optimum {
  Eigen::VectorXd weights;
  double objective = 0.0;
};
std::optional<Optimum> TryAllLabels(const Eigen::MatrixXd& gram, double box, double ridge);

}  // namespace lethe::batched

#endif  // LETHE_TESTS_BATCHED_JUDGE_H_
