// The groups with weight: their weights, gradients and kernel values among each other, all in
// double-double, and the factor of the margin's part of the Gram matrix.
//
// A group with weight holds a slot; slots are reused, so that rows of the Gram matrix stay where
// they are. Mass units (problem.h): h_i = 2 (Kw)_i - total K_ii + mu. Memory 24 bytes a pair of
// slots, rounded up to the next power of two of slots; nothing is allocated while the number of
// slots stays below its highest.
#ifndef LETHE_CORE_SVDD_SUPPORT_SET_H_
#define LETHE_CORE_SVDD_SUPPORT_SET_H_

#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/dd_vector.h"
#include "core/kernel/kernel.h"
#include "core/kernel/row.h"
#include "core/svdd/cholesky_dd.h"
#include "core/svdd/row_cache.h"
#include "core/svdd/token_table.h"

namespace lethe::svdd {

using Slot = size_t;

class SupportSet {
 public:
  enum class Role : uint8_t {
    kFree,     // the slot is unused
    kMargin,   // 0 < w < cap
    kError,    // w = cap
    kDriven,   // moved by the walk
    kLeaving,  // w = 0; kept until the drift that its departure causes is added up
  };
  struct Entry {
    GroupIndex group = 0;
    Role role = Role::kFree;
    DoubleDouble cap;
    DoubleDouble w;
    DoubleDouble reference_w;  // weight when the drift was last added up
  };
  // A computed gradient and a bound on its absolute error for the weights as stored.
  struct Gradient {
    DoubleDouble h;
    double error;
  };

  SupportSet(const kernel::Kernel& kernel, double total, size_t dimension)
      : kernel_(kernel), total_(total), points_(dimension), rows_(dimension) {}

  // Everything but the kernel and total.
  void Clear();

  // A slot for this group, with weight 0 and the role kDriven. O(slots) kernel values.
  Slot Add(GroupIndex group, const DoubleDouble& cap, const TokenTable& tokens);
  // The slot of a group that is not leaving.
  std::optional<Slot> Find(GroupIndex group) const;
  // Whether any slot is still its, a leaving one included.
  bool Holds(GroupIndex group) const { return by_group_.contains(group); }
  Entry& operator[](Slot slot) {
    weights_known_ = false;
    return entries_[slot];
  }
  const Entry& operator[](Slot slot) const { return entries_[slot]; }
  size_t slots() const { return entries_.size(); }
  DoubleDouble Gram(Slot a, Slot b) const {
    return {gram_[a * stride_ + b], gram_low_[a * stride_ + b]};
  }
  // In the order of the factor's rows.
  const std::vector<Slot>& margin() const { return margin_; }

  // Moves a driven or error slot into the margin. False, and no change, when the factor would be
  // singular in double-double.
  bool EnterMargin(Slot slot);
  // Takes a margin slot out, to `role`; its weight becomes exactly 0 or cap for leaving and error.
  void LeaveMargin(Slot slot, Role role);
  // A fresh factor for these margin slots; false when it is singular in double-double.
  bool RebuildFactor(std::vector<Slot> margin);

  // 2 K_SS w + nu 1 = b, 1'w = mass by the factor, refined once: the factor has a long history, its
  // residual need not be at rounding level. Requires a margin and its factor.
  void SolveBorderedRefined(const DdVector& b,
                            const DoubleDouble& mass,
                            DdVector& w,
                            DoubleDouble& nu) const;
  // A proven lower bound on the smallest eigenvalue of K_SS, as eigenvalue.h by a fresh factor in
  // double-double; 0 where that proves none. O(|S|^3 / 2).
  double SmallestEigenvalueBound() const;
  // Margin weights and mu from the bordered system (2). Requires a margin.
  void SolveMargin();
  // How margin weights and mu follow weights that change at these rates (docs/math.md, 3.1), and
  // how every slot's gradient follows them. `direction` in the order of margin(). O(|S|^2 + |S|
  // slots).
  struct Driven {
    Slot slot;
    DoubleDouble rate;
  };
  void Direction(std::span<const Driven> driven, DdVector& direction, DoubleDouble& dmu) const;
  void Slopes(std::span<const Driven> driven,
              const DdVector& direction,
              const DoubleDouble& dmu,
              DdVector& slopes) const;
  // Gradients of all slots from the weights. O(slots^2).
  void FreshGradients(DdVector& gradients) const;
  DoubleDouble FreshGradient(Slot slot) const;
  // Fresh, with error bounds: the kernel's and the rounding's, not that of the weights.
  void BoundedGradients(DdVector& gradients, std::vector<double>& errors) const;
  // The same for any group, in double (through a kept row in single precision where that tells the
  // sign already, give or take `slack`), or in double-double. `keep` keeps the row for next time.
  // O(slots d); O(slots) with a kept row.
  Gradient CoarseGradient(GroupIndex group,
                          const TokenTable& tokens,
                          double slack,
                          bool keep) const;
  Gradient FineGradient(GroupIndex group, const TokenTable& tokens) const;
  // Must be told when a group's index may come to mean another key.
  void ForgetRow(GroupIndex group) { rows_.Drop(group); }
  bool HasError() const;
  // mu at the upper end of its interval, the smallest -slope of an error slot. Requires no margin
  // and an error slot.
  void SetMuToUpperEnd();

  // How far (w, mu) moved since the last call, rounded up. Frees leaving slots.
  struct Drift {
    double path = 0.0;  // 2 |dw|_K
    double mu = 0.0;    // |dmu|
  };
  Drift TakeDrift();

  double total() const { return total_; }
  // Counts up whenever a slot is given to another key; from 1.
  uint64_t Assignment(Slot slot) const { return assignments_[slot]; }
  // The weights in double, 0 for slots without one; one number a slot, rounded up to the points'
  // block.
  std::span<const double> Weights() const;
  // Kernel values of any key with the slots', of the same size. |error| by kernel::RowError.
  void RowOfKey(std::span<const double> key, std::vector<double>& row) const;
  // A bound on the error of 2 sum - total + mu, where `sum` is that of a row times the weights;
  // kernels with unit diagonal only.
  double CoarseError(double sum) const;

  DoubleDouble mu;

  friend class SolverTestPeer;  // tests break the state that is held

 private:
  void Grow();
  void KnowWeights() const;

  kernel::Kernel kernel_;
  double total_;
  std::vector<Entry> entries_;
  size_t stride_ = 0;               // of the matrices; a multiple of the points' block
  std::vector<double> gram_;        // high parts
  std::vector<double> gram_low_;    // low parts
  std::vector<double> gram_error_;  // bounds on the absolute errors
  kernel::PointBlocks points_;      // keys of the slots
  absl::flat_hash_map<GroupIndex, Slot> by_group_;
  std::vector<Slot> free_;
  std::vector<uint64_t> assignments_;  // by slot
  uint64_t last_assignment_ = 0;
  std::vector<Slot> margin_;
  CholeskyFactor<DoubleDouble> factor_;
  DoubleDouble reference_mu_;
  double largest_square_ = 0.0;  // scale |x|^2 over all keys that ever stood here

  // Scratch, so that neither a walk nor an evaluation allocates.
  mutable RowCache rows_;
  mutable bool weights_known_ = false;
  mutable std::vector<double> weights_;  // high parts, 0 without a slot; weight_sum_ their |sum|
  mutable double weight_sum_ = 0.0;
  mutable double negative_sum_ = 0.0;
  mutable std::vector<double> row_;
  mutable std::vector<double> row_low_;
  mutable std::vector<double> row_error_;
  mutable DdVector unit_;
  mutable DdVector residual_;
  mutable DdVector sums_;
  std::vector<DoubleDouble> append_;
  DdVector fixed_;
  DdVector solution_;
  std::vector<double> delta_;
};

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_SUPPORT_SET_H_
