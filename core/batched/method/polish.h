// The second half of a solution: solves on the labels, flips of points that violate (8).
//
// From any weights with gradients g (mu included) and r = 1 - sum a, the solution on the margin is
// the correction
//
//     (2 K_SS + rho I) delta + nu 1 = -g_S,   1'delta = r (10)
//
// which is small near the answer, so that it keeps its digits where the solution itself would
// lose them to the cancellation of mu 1. A point of S whose weight leaves [0, C] goes to the bound
// that it passed; a point of E with g > 0, or of R with g < 0, joins S.
//
// What a backend supplies beside numbers():
//
//     Real SumOfWeights()
//     void Gradient()                 g = 2 K x + rho x - diag(K), without mu
//     void AddThreshold()             g += mu
//     MarginThreshold<Real> OfMargin()    over S by labels: sum of -g, how many
//     void Interval()                 mu_low = max over R of -g, mu_high = min over E; or infinite
//     Real Gap()                      sum of GapOf
//     bool FactoriseMargin()          order, margin and factor by the labels; false: not positive
//                                     definite
//     Real Correction()               delta of (10) by the factor; returns nu. Needs a margin
//     Real MarginResidual()           max over S of |g|
//     Blocking<Real> FirstBound()     the least room / |delta| among the points of S that would
//     pass
//                                     a bound, the first of equals; the move's length, at most 1
//     void MoveMargin(Real length, bool clamp)     x_S += length delta, kept in [0, C] if asked
//     void ScaleMarginGradient(Real by)
//     Pivot Leaving(Blocking<Real>)   which point that is, and to which label
//     size_t FindFlips()              points that violate, in order; how many
//     void RelabelFlips()             all of them; where they go to a bound, their weights too
//     Pivot FlipAt(size_t)            one of them, and its next label
//     void Leave(Pivot), bool Join(size_t point)   with the factor; false: not positive definite
//     size_t Worst(bool first)        the point outside S that violates most (or the first), or
//                                     kNoPoint
//     Real GradientOf(size_t point)
//     void Save(), void Restore()     x
//     void SnapSingle(Real tiny)      the one margin point's weight, within tiny of a bound, is it
//     void LabelByWeights()
#ifndef LETHE_CORE_BATCHED_METHOD_POLISH_H_
#define LETHE_CORE_BATCHED_METHOD_POLISH_H_

#include "core/batched/method/numbers.h"

namespace lethe::batched {

inline constexpr size_t kNoPoint = static_cast<size_t>(-1);

template <typename T>
struct MarginThreshold {
  T sum = 0;
  size_t count = 0;
};
template <typename T>
struct Blocking {
  T length = 1;
  size_t row = kNoPoint;  // of the margin
};
struct Pivot {
  size_t point = kNoPoint;
  Label to = Label::kReserve;
};
enum class Ending : uint8_t { kSolved, kFailed, kNotPositiveDefinite };

// mu for weights that are not a solution: the mean over the margin, or from the interval.
template <typename Steps>
LETHE_STEP void ChooseThreshold(Steps& steps) {
  using T = typename Steps::Real;
  auto& numbers = steps.numbers();
  const MarginThreshold<T> of_margin = steps.OfMargin();
  if (of_margin.count > 0) {
    numbers.mu = of_margin.sum / static_cast<T>(of_margin.count);
    numbers.mu_low = numbers.mu_high = numbers.mu;
    return;
  }
  steps.Interval();
  const bool low = std::isfinite(numbers.mu_low);
  const bool high = std::isfinite(numbers.mu_high);
  numbers.mu = low && high ? numbers.mu_low + (numbers.mu_high - numbers.mu_low) / 2
               : low       ? numbers.mu_low
               : high      ? numbers.mu_high
                           : T{0};
}

// Gradients, threshold and gap of x at its labels.
template <typename Steps>
LETHE_PART void JudgeWeights(Steps& steps) {
  steps.Gradient();
  ChooseThreshold(steps);
  steps.AddThreshold();
  steps.numbers().gap = steps.Gap();
}

// Gradients at x with the mu that has just been found.
template <typename Steps>
LETHE_PART void Refresh(Steps& steps) {
  steps.Gradient();
  steps.AddThreshold();
}

template <typename Steps>
LETHE_PART bool Flip(size_t count, Steps& steps) {
  // Few flips move the factor, many make it anew.
  if (count * 12 > steps.numbers().margin) {
    steps.RelabelFlips();
    return steps.FactoriseMargin();
  }
  for (size_t at = 0; at < count; ++at) {
    const Pivot pivot = steps.FlipAt(at);
    if (pivot.to != Label::kMargin) {
      steps.Leave(pivot);
    } else if (!steps.Join(pivot.point)) {
      return false;
    }
  }
  return true;
}

// Flips all violators at a time while that makes them fewer.
template <typename Steps>
LETHE_PART Ending BlockPivots(const Options& options, Steps& steps) {
  using T = typename Steps::Real;
  auto& numbers = steps.numbers();
  if (!steps.FactoriseMargin()) return Ending::kNotPositiveDefinite;
  constexpr int kPatience = 1;
  size_t least = kNoPoint;
  int patience = kPatience;
  for (int round = 0; round < std::max(options.block_rounds, 1); ++round) {
    ++numbers.rounds;
    if (numbers.margin > 0) {
      numbers.mu += steps.Correction();
      steps.MoveMargin(T{1}, false);
      Refresh(steps);
    } else {
      // All at their bounds: nothing moves, and the sum is 1 or no solution has these labels.
      if (std::abs(1 - steps.SumOfWeights()) > kMass<T>) return Ending::kFailed;
      JudgeWeights(steps);
    }
    const size_t count = steps.FindFlips();
    if (count == 0) return Ending::kSolved;
    if (count < least) {
      least = count;
      patience = kPatience;
    } else if (--patience < 0) {
      return Ending::kFailed;
    }
    if (round + 1 >= options.block_rounds) return Ending::kFailed;
    if (!Flip(count, steps)) return Ending::kNotPositiveDefinite;
    Refresh(steps);
  }
  return Ending::kFailed;
}

// A primal active-set method from the feasible x: to the solution on the margin, or to the first
// bound on the way; there, the worst violator joins. After a step of length 0 the first one does
// (Bland), until something moves again.
template <typename Steps>
LETHE_PART Ending SinglePivots(Steps& steps) {
  using T = typename Steps::Real;
  auto& numbers = steps.numbers();
  if (!steps.FactoriseMargin()) return Ending::kNotPositiveDefinite;
  const size_t most = 50 + 10 * numbers.n;
  bool stuck = false;
  steps.Gradient();
  ChooseThreshold(steps);
  steps.AddThreshold();
  for (size_t pivot = 0; pivot < most; ++pivot) {
    ++numbers.rounds;
    if (numbers.margin > 0) {
      const T nu = steps.Correction();
      const Blocking<T> blocking = steps.FirstBound();
      stuck = blocking.row != kNoPoint && blocking.length == 0;
      steps.MoveMargin(blocking.length, true);
      numbers.mu += blocking.length * nu;
      if (blocking.row != kNoPoint) {
        // By (10); what rounding loses here shows when all is computed afresh.
        steps.ScaleMarginGradient(1 - blocking.length);
        steps.Leave(steps.Leaving(blocking));
        continue;
      }
    }
    Refresh(steps);
    const size_t joining = steps.Worst(stuck);
    if (joining == kNoPoint) return Ending::kSolved;
    if (!steps.Join(joining)) return Ending::kNotPositiveDefinite;
    // Its own gradient is what must vanish now.
    if (numbers.margin == 1) {
      numbers.mu -= steps.GradientOf(joining);
      Refresh(steps);
    }
  }
  return Ending::kFailed;
}

// Corrects what rounding has left of (10) where the margin is badly conditioned. Requires the
// factor of the labels and fresh gradients.
template <typename Steps>
LETHE_PART void Refine(Steps& steps) {
  using T = typename Steps::Real;
  auto& numbers = steps.numbers();
  constexpr T kEnough = 8 * std::numeric_limits<T>::epsilon();
  for (int round = 0; round < 2 && numbers.margin > 0; ++round) {
    if (steps.MarginResidual() <= kEnough * (numbers.scale + numbers.ridge) &&
        std::abs(1 - steps.SumOfWeights()) <= kEnough) {
      return;
    }
    numbers.mu += steps.Correction();
    steps.MoveMargin(T{1}, true);
    Refresh(steps);
  }
}

// Labels by the weights alone, and what follows from them.
template <typename Steps>
LETHE_PART void Conclude(Steps& steps) {
  using T = typename Steps::Real;
  auto& numbers = steps.numbers();
  // One point takes what the others leave, which may be nothing but rounding.
  if (numbers.margin == 1) {
    steps.SnapSingle(8 * std::numeric_limits<T>::epsilon() * numbers.box);
  }
  steps.LabelByWeights();
  JudgeWeights(steps);
}

template <typename Steps>
LETHE_PART void RestoreWeights(Steps& steps) {
  steps.numbers().margin = 0;
  steps.Restore();
  Conclude(steps);
}

// Requires x and labels of RunFista. Ends with x, labels, thresholds, gap and rounds of the answer.
template <typename Steps>
LETHE_PART Outcome RunPolish(const Options& options, Steps& steps) {
  using T = typename Steps::Real;
  auto& numbers = steps.numbers();
  numbers.rounds = 0;
  JudgeWeights(steps);
  const T before = numbers.gap;
  steps.Save();
  const T tolerance = GapTolerance(options, numbers);
  const auto accepted = [&] {
    // Not if a residual grows by it, unless it stays within what rounding leaves.
    return numbers.gap <= std::max(before, tolerance / 16) && numbers.gap <= tolerance &&
           std::abs(1 - steps.SumOfWeights()) <= kMass<T>;
  };
  if (options.block_rounds > 0 && BlockPivots(options, steps) == Ending::kSolved) {
    const bool flipped = numbers.rounds > 1;
    Refine(steps);
    Conclude(steps);
    if (accepted()) return flipped ? Outcome::kPolished : Outcome::kConverged;
  }
  // From FISTA's iterate, which is feasible.
  RestoreWeights(steps);
  const Ending ending = SinglePivots(steps);
  if (ending == Ending::kSolved) {
    Refine(steps);
    Conclude(steps);
    if (accepted()) return Outcome::kSinglePivot;
  }
  RestoreWeights(steps);
  if (ending == Ending::kNotPositiveDefinite) return Outcome::kNotPositiveDefinite;
  // FISTA may have come as near as rounding lets anybody, and then no polish is better.
  return numbers.gap <= tolerance ? Outcome::kConverged : Outcome::kUnsolved;
}

// The same without a polish: FISTA's last iterate is the answer.
template <typename Steps>
LETHE_PART Outcome TakeAsItIs(const Options& options, Steps& steps) {
  auto& numbers = steps.numbers();
  numbers.rounds = 0;
  JudgeWeights(steps);
  return numbers.gap <= GapTolerance(options, numbers) ? Outcome::kConverged : Outcome::kUnsolved;
}

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_METHOD_POLISH_H_
