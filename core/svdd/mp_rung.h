// One rung above double-double: the margin system (2) and gradients in MpReal, with their error
// bounds.
//
// Reads the groups with weight from a SupportSet (margin to be solved, error groups at their caps);
// kernel values are computed when first needed and kept as long as the rung. Requires a
// PrecisionScope of `bits` that outlives it. Cost O(|S|^3) multiplications of `bits` bits and one
// exp a pair of groups. Threads: compatible.
#ifndef LETHE_CORE_SVDD_MP_RUNG_H_
#define LETHE_CORE_SVDD_MP_RUNG_H_

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/kernel/kernel.h"
#include "core/svdd/enclosure.h"
#include "core/svdd/support_set.h"
#include "core/svdd/token_table.h"

namespace lethe::svdd {

class MpRung {
 public:
  MpRung(const kernel::Kernel& kernel,
         double total,
         const TokenTable& tokens,
         const SupportSet& supports,
         int bits,
         int tie_bits);

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
  bool IsMargin(size_t i) const;
  const MpReal& weight(size_t i) const { return weights_[i]; }
  bool has_margin() const { return !margin_.empty(); }
  const MpReal& mu() const { return mu_; }
  // Zero without a margin: the weights are exact then.
  const Enclosure<MpReal>& bounds() const { return bounds_; }
  const MpReal& lambda() const { return lambda_; }
  double kmax() const { return kmax_; }

  // Whether an error is so small, for a quantity of this scale, that what it cannot decide is a
  // tie.
  bool TieAllowed(const MpReal& error, double scale) const;

 private:
  const kernel::ApproximateMp& Value(GroupIndex a, GroupIndex b);

  const kernel::Kernel kernel_;
  const double total_;
  const TokenTable& tokens_;
  const int bits_;
  const int tie_bits_;
  const MpReal unit_;  // 2^-bits
  std::vector<GroupIndex> groups_;
  std::vector<MpReal> weights_;
  std::vector<size_t> margin_;  // positions in groups_, increasing
  MpReal mu_;
  MpReal lambda_;
  Enclosure<MpReal> bounds_;
  double kmax_ = 0.0;
  absl::flat_hash_map<uint64_t, std::unique_ptr<kernel::ApproximateMp>> values_;
};

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_MP_RUNG_H_
