// Many small problems at once: support vector data description with a ridge.
//
//     min_a  a'(K + (rho/2) I) a - diag(K)'a     s.t.  sum_i a_i = 1,  0 <= a_i <= C (8)
//
//     g_i = 2 (Ka)_i + rho a_i - K_ii + mu
//     S: 0 < a_i < C, g_i = 0      E: a_i = C, g_i <= 0      R: a_i = 0, g_i >= 0
//
// The same rho stands in every step of the computation, so the optimum is unique for rho > 0
// whatever K's rank is, and an answer can be checked: docs/math.md, section 10. Half the Hessian is
// K + (rho/2) I, which is the Gram matrix of a kernel too: (8) is the problem of core/svdd for it.
//
// Nothing here carries a proof or a certificate; where answers must be exact, core/svdd is asked.
#ifndef LETHE_CORE_BATCHED_PROBLEM_H_
#define LETHE_CORE_BATCHED_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"

namespace lethe::batched {

inline constexpr size_t kMaxPoints = 512;
inline constexpr size_t kMaxDimension = 4096;

enum class KernelKind : uint8_t {
  kRbf = 1,        // exp(-p |x - y|^2)
  kLaplacian = 2,  // exp(-p |x - y|)
  kExpDot = 3,     // exp(p <x, y>)
  kDot = 4,        // p <x, y>; of rank d, so it wants a ridge
};

// How K follows from points. The first three kinds are those of core/kernel.
struct KernelForm {
  KernelKind kind = KernelKind::kRbf;
  // Keys are divided by their Euclidean length first. Decides how sparse the answers are: with rbf
  // nearly every normalised key is a support.
  bool normalise = false;

  friend bool operator==(const KernelForm&, const KernelForm&) = default;
};

// What is read; all arrays row-major, in the caller's memory. T is float or double.
template <typename T>
struct Batch {
  size_t problems = 0;
  size_t n = 0;  // points of each problem, 1 .. kMaxPoints

  // One of the two: Gram matrices, problems x n x n, symmetric to 16 roundings of their largest
  // entry; or points, problems x n x dimension, with a kernel.
  std::span<const T> matrices;
  std::span<const T> points;
  size_t dimension = 0;
  KernelForm kernel;
  std::span<const T> parameter;  // of the kernel, > 0: one for all, or one a problem

  std::span<const T> box;    // C, n C > 1, C <= 1: one for all, or one a problem
  std::span<const T> ridge;  // rho >= 0, the same; 0 needs K positive definite

  // Optional, problems x n: weights to start from (of the step before; they are projected onto the
  // constraints), and the labels of the step before, to count what has changed.
  std::span<const T> start;
  std::span<const uint8_t> previous_labels;
};

struct Options {
  int iterations = 50;  // of FISTA, at most
  // FISTA ends sooner when its labels have been the same for so many iterations (a multiple of 5,
  // rounded up); 0: never.
  int stable_iterations = 10;
  int power_iterations = 8;  // for the length of its steps; 0: by the row sums alone
  // Off: FISTA's last iterate is the answer, kConverged where its gap is within the tolerance.
  bool polish = true;
  int block_rounds = 12;  // solves that may flip many labels at once, before one goes at a time
  // A problem is solved when its gap is at most this times max |K_ij| + rho times max(1, n C / 4),
  // by which rounding grows; 0: 2^-30 in double, 2^-16 in float.
  double tolerance = 0.0;
};

// How one problem ended. No problem's end has to do with another's.
enum class Outcome : uint8_t {
  kConverged = 1,    // FISTA had found the labels
  kPolished = 2,     // labels were flipped, many at a time
  kSinglePivot = 3,  // labels were flipped one at a time
  // Weights are FISTA's: feasible, and the gap says how far off they are.
  kUnsolved = 4,
  // The same, because 2 K_SS + rho I is not, in this precision: K is not positive semidefinite, or
  // rho is lost in the rounding of its entries.
  kNotPositiveDefinite = 5,
  // No weights (all 0, labels reserve):
  kNotFinite = 6,      // a NaN or an infinity in the input, or a kernel value that overflows
  kBadBox = 7,         // C is not in (0, 1]
  kBoxTooSmall = 8,    // n C <= 1: nothing to choose, or nothing feasible
  kBadRidge = 9,       // rho < 0
  kBadParameter = 10,  // the kernel's parameter is not > 0
  kNotSymmetric = 11,  // the matrix
  kZeroKey = 12,       // a key without length is to be normalised
};
constexpr bool IsSolved(Outcome outcome) { return outcome <= Outcome::kSinglePivot; }
constexpr bool HasWeights(Outcome outcome) { return outcome <= Outcome::kNotPositiveDefinite; }
const char* OutcomeName(Outcome outcome);  // "polished"

enum class Label : uint8_t { kReserve = 0, kMargin = 1, kError = 2 };

// What is answered. Shapes as the batch's; everything is overwritten.
template <typename T>
struct Solution {
  std::vector<T> weights;       // problems x n; exactly 0 in reserve, exactly C in error
  std::vector<uint8_t> labels;  // problems x n, Label; follow from the weights alone
  // mu, an interval where the margin is empty (an end may be infinite then).
  std::vector<T> threshold_low;
  std::vector<T> threshold_high;
  // sum_i a_i max(g_i, 0) + (C - a_i) max(-g_i, 0), an upper bound on how far the objective is from
  // its least value; infinite where there are no weights.
  std::vector<T> gap;
  std::vector<Outcome> outcome;
  std::vector<int32_t> iterations;  // of FISTA
  std::vector<int32_t> rounds;      // solves of the polish, single pivots included
  std::vector<int32_t> churn;       // labels unlike previous_labels; empty without those
};

// dL of a loss L that depends on weights and thresholds.
template <typename T>
struct LossGradient {
  std::span<const T> weights;    // dL/da, problems x n
  std::span<const T> threshold;  // dL/dmu, problems; may be empty
};

enum class GradientOutcome : uint8_t {
  kOk = 1,
  // No point is in the margin: weights stand at 0 and C. Only dL/dC is not 0, and it is of the
  // weights alone, although every step of C changes the labels.
  kNoMargin = 2,
  // The problem was not solved, or 2 K_SS + rho I cannot be factored: all gradients are 0.
  kNone = 3,
};

// Derivatives at fixed labels. What belongs to a point in reserve is exactly 0.
template <typename T>
struct Gradients {
  // Where the batch has matrices: problems x n x n, symmetric, with dL = sum_ij G_ij dK_ij for
  // symmetric dK. Otherwise points and parameter.
  std::vector<T> matrices;
  std::vector<T> points;     // problems x n x dimension
  std::vector<T> parameter;  // problems, as box and ridge: sum them where one serves all
  std::vector<T> box;
  std::vector<T> ridge;
  std::vector<GradientOutcome> outcome;
};

// INVALID_ARGUMENT names the field whose size or setting does not fit: "batch.n", "batch.points",
// "options.iterations". Nothing that a single problem's numbers do is an error here.
template <typename T>
absl::Status Validate(const Batch<T>& batch, const Options& options);
template <typename T>
absl::Status Validate(const Batch<T>& batch,
                      const Solution<T>& solution,
                      const LossGradient<T>& loss);

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_PROBLEM_H_
