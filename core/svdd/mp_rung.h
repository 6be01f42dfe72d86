// One rung above double-double: the margin system (2) and gradients in MpReal, with their error
// bounds.
//
// Reads the groups with weight from a SupportSet (margin to be solved, error groups at their caps).
// The system is solved by refinement: residuals at this rung's precision, corrections from the rung
// below, which has half the bits and does the same; the lowest takes them from the factor of the
// walk. Only where there is none, or it proves nothing about the eigenvalue, or its corrections are
// worth nothing, does a rung make its own. Whatever they are worth, the enclosure is of the
// residual at the end and of a bound on the smallest eigenvalue that holds for the exact matrix
// (docs/math.md, section 4).
//
// Cost: one exp a pair of groups, O(|S|^2) multiplications of `bits` bits, and O(|S|^3) operations
// once: in double-double, or of as many bits as the factor needs. Memory: bits / 8 and about 100
// bytes a pair of groups, at each precision that was tried. Threads: compatible.
#ifndef LETHE_CORE_SVDD_MP_RUNG_H_
#define LETHE_CORE_SVDD_MP_RUNG_H_

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/kernel/kernel.h"
#include "core/svdd/cholesky.h"
#include "core/svdd/enclosure.h"
#include "core/svdd/support_set.h"
#include "core/svdd/token_table.h"

namespace lethe::svdd {

// Kernel values by precision, computed when first needed and kept. Must not outlive a change of the
// tokens.
class MpKernelValues {
 public:
  MpKernelValues(const kernel::Kernel& kernel, const TokenTable& tokens)
      : kernel_(kernel), tokens_(tokens) {}
  // At the precision of the current scope. The reference stays valid.
  const kernel::ApproximateMp& Of(GroupIndex a, GroupIndex b);
  double Diagonal(GroupIndex group) const { return kernel::Diagonal(kernel_, tokens_.Key(group)); }

 private:
  using Values = absl::flat_hash_map<uint64_t, std::unique_ptr<kernel::ApproximateMp>>;
  const kernel::Kernel kernel_;
  const TokenTable& tokens_;
  std::map<int, Values> by_bits_;
};

class MpRung {
 public:
  // `values` and `supports` must outlive it; the margin must not change meanwhile. `factor_usable`:
  // whether supports has a factor of it. `below`: a rung of half the bits to take corrections from,
  // or null; used where its margin and what it says of the factor are this one's.
  MpRung(MpKernelValues& values,
         double total,
         const SupportSet& supports,
         bool factor_usable,
         int bits,
         int tie_bits,
         std::unique_ptr<MpRung> below);

  // A computed number and a bound on its absolute error.
  struct Bounded {
    MpReal value;
    MpReal error;
  };

  // Solves (2) at this precision and bounds the error; false when this precision cannot. Nothing to
  // do without a margin.
  bool SolveMargin();

  // The gradient of any group at this rung's weights, with the kernel's and the rounding's error.
  Bounded GradientOf(GroupIndex group);

  // Groups with weight; a position i below counts in these.
  const std::vector<GroupIndex>& groups() const { return groups_; }
  bool IsMargin(size_t i) const { return i < margin_; }
  const MpReal& weight(size_t i) const { return weights_[i]; }
  bool has_margin() const { return margin_ > 0; }
  const MpReal& mu() const { return mu_; }
  // Zero without a margin: the weights are exact then.
  const Enclosure<MpReal>& bounds() const { return bounds_; }
  const MpReal& lambda() const { return lambda_; }
  double kmax() const { return kmax_; }

  // Whether an error is so small, for a quantity of this scale, that what it cannot decide is a
  // tie.
  bool TieAllowed(const MpReal& error, double scale) const;

 private:
  // 2 K_SS w + nu 1 = r, 1'w = mass.
  struct System {
    std::vector<MpReal> r;
    MpReal mass;
  };
  struct Solution {
    std::vector<MpReal> w;
    MpReal nu;
  };

  // Finds out where corrections come from, and lambda_; false when from nowhere.
  bool Prepare();
  bool MakeFactor();
  // By this rung's factor, the walk's or the rung below.
  std::optional<Solution> Correction(const System& system);
  std::optional<Solution> CorrectionByWalk(const System& system) const;
  // Refines to about this rung's precision; `residual`, where not null, becomes what is left. None
  // when the corrections are worth nothing.
  std::optional<Solution> Solve(const System& system, System* residual);
  System Residual(const System& system, const Solution& at);

  const kernel::ApproximateMp& Value(GroupIndex a, GroupIndex b);
  const kernel::ApproximateMp& Gram(size_t p, size_t q);  // of the margin
  // A bound on what GradientOf and the residuals are off, for a group of this scale.
  MpReal GradientError(double scale) const;
  void SumMagnitudes();
  std::span<const GroupIndex> margin_groups() const { return std::span(groups_).first(margin_); }

  MpKernelValues& values_;
  const double total_;
  const SupportSet& supports_;
  const bool factor_usable_;
  const int bits_;
  const int tie_bits_;
  const MpReal unit_;               // 2^-bits
  std::vector<GroupIndex> groups_;  // the margin's first
  size_t margin_ = 0;               // how many those are
  std::vector<MpReal> weights_;
  std::vector<double> scales_;                      // sqrt(K_ii), at least 1, rounded up
  std::vector<const kernel::ApproximateMp*> gram_;  // of the margin, null where not yet needed
  MpReal mu_;
  MpReal magnitude_;    // sum |w_j| sqrt(K_jj)
  double units_ = 0.0;  // the largest of the kernel values used
  double kmax_ = 0.0;
  MpReal lambda_;  // <= the smallest eigenvalue of the exact K_SS
  Enclosure<MpReal> bounds_;

  bool prepared_ = false;
  bool by_walk_ = false;
  std::unique_ptr<MpRung> below_;
  std::unique_ptr<CholeskyFactor<MpReal>> factor_;
};

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_MP_RUNG_H_
