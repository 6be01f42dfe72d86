// Reads and breaks what a Solver holds, past its interfaces.
#ifndef LETHE_TESTS_CORE_SOLVER_PEER_H_
#define LETHE_TESTS_CORE_SOLVER_PEER_H_

#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "core/svdd/solver.h"

namespace lethe::svdd {

// No cache is told of a change: as a stray write would not tell it.
class SolverTestPeer {
 public:
  explicit SolverTestPeer(Solver& solver) : solver_(solver), supports_(solver.supports_) {}
  // As after an update that no rung could solve.
  void GiveUp() { solver_.gave_up_ = true; }
  // Walks the weight of a slot down to `share` of what it is, or up until its gradient is zero or
  // it is at what its group may hold. What that does to other groups waits for Settle.
  bool Lower(Slot slot, double share) {
    const Solver::Lowering lowering{slot, supports_[slot].w * DoubleDouble(share)};
    return solver_.LowerByWalk({&lowering, 1});
  }
  bool Raise(Slot slot) {
    supports_[slot].cap = solver_.GroupCap(supports_[slot].group);
    return solver_.RaiseByWalk(slot);
  }
  void Settle() { solver_.Settle(); }

  // Every group that waits in the pool, with its own lower bound on its gradient in units of the
  // scale.
  std::vector<KeyedGroup> PoolBounds() {
    solver_.AddDrift();
    solver_.FollowLandmarks();
    std::vector<KeyedGroup> bounds;
    BucketQueue queue = solver_.pool_.queue_;
    queue.TakeReached(std::numeric_limits<double>::max(), bounds);
    for (KeyedGroup& item : bounds) item.key -= solver_.drift_;
    Landmarks landmarks = solver_.pool_.landmarks_;
    landmarks.Dissolve(bounds);
    return bounds;
  }
  double PoolBound() const { return solver_.pool_.LowerBound(solver_.drift_); }
  SupportSet::Gradient GradientOf(GroupIndex group) const {
    return supports_.FineGradient(group, solver_.tokens_);
  }
  // As a group that the drift has reached before.
  void PutNearLandmark(GroupIndex group) {
    const SupportSet::Gradient gradient = GradientOf(group);
    solver_.pool_.Remove(group);
    solver_.PutInPool(group, gradient.h.hi - gradient.error, true);
  }
  bool LandmarksOutdated() const { return solver_.pool_.landmarks_.Outdated(); }
  // Whatever was copied from the weights is read anew.
  void DropCopies() { supports_.weights_known_ = false; }

  const SupportSet& supports() const { return supports_; }
  bool factor_ok() const { return solver_.factor_ok_; }
  DoubleDouble& mu() { return supports_.mu; }
  size_t margin() const { return supports_.margin_.size(); }
  const std::vector<Slot>& MarginSlots() const { return supports_.margin_; }
  size_t slots() const { return supports_.slots(); }
  SupportSet::Role RoleOf(Slot slot) const { return supports_.entries_[slot].role; }
  SupportSet::Entry& Entry(Slot slot) { return supports_.entries_[slot]; }
  std::vector<Slot> ErrorSlots() const {
    std::vector<Slot> slots;
    for (Slot slot = 0; slot < supports_.slots(); ++slot) {
      if (supports_.entries_[slot].role == SupportSet::Role::kError) slots.push_back(slot);
    }
    return slots;
  }
  SupportSet::Entry& MarginEntry(size_t position) {
    return supports_.entries_[supports_.margin_[position]];
  }

  // Entry (row, column) of the factor L becomes change(entry): the factor is made anew from L' L''.
  // False when that matrix is no longer positive definite to the factor.
  bool ChangeFactor(size_t row, size_t column, const std::function<double(double)>& change) {
    const size_t n = margin();
    std::vector<std::vector<DoubleDouble>> lower(n, std::vector<DoubleDouble>(n));
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j <= i; ++j) {
        DoubleDouble sum = supports_.Gram(supports_.margin_[i], supports_.margin_[j]);
        for (size_t l = 0; l < j; ++l) sum -= lower[i][l] * lower[j][l];
        lower[i][j] = i == j ? Sqrt(sum) : sum / lower[j][j];
      }
    }
    lower[row][column].hi = change(lower[row][column].hi);
    supports_.factor_.Clear();
    for (size_t i = 0; i < n; ++i) {
      std::vector<DoubleDouble> products;
      for (size_t j = 0; j <= i; ++j) {
        DoubleDouble sum;
        for (size_t l = 0; l <= j; ++l) sum += lower[i][l] * lower[j][l];
        products.push_back(sum);
      }
      const DoubleDouble diagonal = products.back();
      products.pop_back();
      if (!supports_.factor_.Append(std::move(products), diagonal, DoubleDouble(0.0))) return false;
    }
    return true;
  }

 private:
  Solver& solver_;
  SupportSet& supports_;
};

}  // namespace lethe::svdd

#endif  // LETHE_TESTS_CORE_SOLVER_PEER_H_
