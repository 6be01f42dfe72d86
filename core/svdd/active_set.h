// A primal active-set method for a small dense instance of problem (1), from any feasible point, in
// any of our arithmetics. It is the cold solver, and it finishes what the walk gives up.
//
//     min_w  w'Kw / total - diag(K)'w   s.t.  sum w = total,  0 <= w_i <= cap_i        (mass units)
//     h_i = 2 (Kw)_i - total K_ii + mu
//
// Each step moves to the minimum over the free variables (a bordered solve), stops at the first
// bound in the way, or, at that minimum, frees the variable that violates its sign most. After a
// step of length zero the smallest index is chosen instead (Bland's rule) until the objective falls
// again, so that in exact arithmetic it ends; steps are bounded. Cost a step O(|S|^2) for the
// solves and O(n k) for the gradients, k variables with weight.
#ifndef LETHE_CORE_SVDD_ACTIVE_SET_H_
#define LETHE_CORE_SVDD_ACTIVE_SET_H_

#include <utility>
#include <vector>

#include "core/svdd/cholesky.h"
#include "core/svdd/cholesky_dd.h"
#include "core/svdd/numbers.h"
#include "core/svdd/problem.h"

namespace lethe::svdd {

template <typename Real>
struct DenseProblem {
  std::vector<Numbers<Real>> gram;  // symmetric, n x n
  std::vector<Real> cap;
  Real total;
  std::vector<Real> gradient_tolerance;  // a sign of h_i within it counts as right
  Real pivot_threshold;                  // Cholesky pivots squared below it count as singular
};

template <typename Real>
struct DensePoint {
  std::vector<Label> label;  // free variables are kMargin
  std::vector<Real> weight;
  Real mu{0.0};  // with no margin: the upper end of its interval
};

enum class ActiveSetOutcome { kOptimal, kSingular, kIterationLimit };

// Requires `point` feasible with labels that agree with its weights (0: reserve, cap: error).
// Ensures on kOptimal that every sign of h is right up to the tolerance.
template <typename Real>
class ActiveSetSolver {
 public:
  ActiveSetSolver(const DenseProblem<Real>& problem, DensePoint<Real>& point)
      : problem_(problem), point_(point), n_(point.weight.size()) {}

  ActiveSetOutcome Solve() {
    for (size_t i = 0; i < n_; ++i) {
      if (point_.label[i] == Label::kMargin && !Free(i)) return ActiveSetOutcome::kSingular;
    }
    const size_t limit = 100 + 40 * n_;
    bool bland = false;
    for (size_t step = 0; step < limit; ++step) {
      if (!free_.empty()) {
        const Move move = MoveToFreeMinimum(bland);
        if (move == Move::kBlockedAtOnce) bland = true;
        if (move == Move::kBlocked) bland = false;
        if (move != Move::kArrived) continue;
      }
      const Choice choice = Choose(bland);
      if (choice == Choice::kOptimal) return ActiveSetOutcome::kOptimal;
      if (choice == Choice::kSingular) return ActiveSetOutcome::kSingular;
    }
    return ActiveSetOutcome::kIterationLimit;
  }

 private:
  enum class Move { kArrived, kBlocked, kBlockedAtOnce };
  enum class Choice { kFreed, kOptimal, kSingular };

  bool Free(size_t i) {
    std::vector<Real> row;
    row.reserve(free_.size());
    for (const size_t j : free_) row.push_back(problem_.gram[i][j]);
    if (!factor_.Append(std::move(row), problem_.gram[i][i], problem_.pivot_threshold))
      return false;
    free_.push_back(i);
    point_.label[i] = Label::kMargin;
    return true;
  }

  void Bind(size_t position, Label label) {
    const size_t i = free_[position];
    factor_.Remove(position);
    free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(position));
    point_.label[i] = label;
    point_.weight[i] = label == Label::kError ? problem_.cap[i] : Real(0.0);
  }

  Move MoveToFreeMinimum(bool bland) {
    std::vector<Real> b;
    b.reserve(free_.size());
    Real m = problem_.total;
    for (size_t j = 0; j < n_; ++j) {
      if (point_.label[j] == Label::kError) m -= problem_.cap[j];
    }
    sums_.Zero(n_);
    for (size_t j = 0; j < n_; ++j) {
      if (point_.label[j] == Label::kError) sums_.AddScaled(problem_.cap[j], problem_.gram[j]);
    }
    for (const size_t i : free_) {
      b.push_back(problem_.total * problem_.gram[i][i] - (sums_[i] + sums_[i]));
    }
    std::vector<Real> target;
    SolveBordered(factor_, std::move(b), m, target, point_.mu);

    // The longest step towards the target that stays in the box.
    Real step(1.0);
    size_t blocking = free_.size();
    for (size_t p = 0; p < free_.size(); ++p) {
      const Real& from = point_.weight[free_[p]];
      const Real& cap = problem_.cap[free_[p]];
      Real allowed(1.0);
      if (target[p] < Real(0.0)) {
        allowed = from / (from - target[p]);
      } else if (target[p] > cap) {
        allowed = (cap - from) / (target[p] - from);
      } else {
        continue;
      }
      if (allowed < Real(0.0)) allowed = Real(0.0);
      const bool earlier = allowed < step;
      const bool tie = blocking < free_.size() && allowed == step;
      if (blocking == free_.size() || earlier || (tie && bland && free_[p] < free_[blocking])) {
        step = std::move(allowed);
        blocking = p;
      }
    }
    if (blocking == free_.size()) {
      for (size_t p = 0; p < free_.size(); ++p) point_.weight[free_[p]] = std::move(target[p]);
      return Move::kArrived;
    }
    const Label label = target[blocking] < Real(0.0) ? Label::kReserve : Label::kError;
    for (size_t p = 0; p < free_.size(); ++p) {
      Real& weight = point_.weight[free_[p]];
      weight += step * (target[p] - weight);
    }
    Bind(blocking, label);
    return step > Real(0.0) ? Move::kBlocked : Move::kBlockedAtOnce;
  }

  // sums_ = Kw
  void SumRows() {
    sums_.Zero(n_);
    for (size_t j = 0; j < n_; ++j) {
      if (point_.label[j] == Label::kReserve) continue;
      sums_.AddScaled(point_.weight[j], problem_.gram[j]);
    }
  }
  // 2 (Kw)_i - total K_ii, after SumRows.
  Real Slope(size_t i) const { return sums_[i] + sums_[i] - problem_.total * problem_.gram[i][i]; }

  Choice Choose(bool bland) {
    SumRows();
    if (free_.empty()) return ChoosePair();
    size_t chosen = n_;
    Real worst(0.0);
    for (size_t i = 0; i < n_; ++i) {
      if (point_.label[i] == Label::kMargin) continue;
      const Real h = Slope(i) + point_.mu;
      const Real violation = point_.label[i] == Label::kReserve ? -h : h;
      if (violation > problem_.gradient_tolerance[i] && violation > worst) {
        worst = violation;
        chosen = i;
        if (bland) break;
      }
    }
    if (chosen == n_) return Choice::kOptimal;
    return Free(chosen) ? Choice::kFreed : Choice::kSingular;
  }

  // No margin: mu may lie in [max over reserve of -slope, min over error of -slope]. When that is
  // empty the two variables that make it so are freed together.
  Choice ChoosePair() {
    size_t low_index = n_;
    size_t high_index = n_;
    Real low(0.0);
    Real high(0.0);
    for (size_t i = 0; i < n_; ++i) {
      Real end = -Slope(i);
      if (point_.label[i] == Label::kReserve) {
        if (low_index == n_ || end > low) {
          low = std::move(end);
          low_index = i;
        }
      } else if (high_index == n_ || end < high) {
        high = std::move(end);
        high_index = i;
      }
    }
    LETHE_CHECK(high_index < n_);
    point_.mu = high;
    if (low_index == n_ || low <= high + problem_.gradient_tolerance[low_index]) {
      return Choice::kOptimal;
    }
    if (!Free(high_index) || !Free(low_index)) return Choice::kSingular;
    return Choice::kFreed;
  }

  const DenseProblem<Real>& problem_;
  DensePoint<Real>& point_;
  const size_t n_;
  std::vector<size_t> free_;  // in the order of the factor's rows
  CholeskyFactor<Real> factor_;
  Numbers<Real> sums_;
};

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_ACTIVE_SET_H_
