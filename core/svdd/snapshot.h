// The published state of a memory: the correctly rounded solution of problem (1), immutable, shared
// between readers without a lock.
//
// Ensures: every weight is the exact real solution rounded to nearest once, so that equal retained
// tokens give equal bits whatever was inserted and forgotten in between, on every machine.
#ifndef LETHE_CORE_SVDD_SNAPSHOT_H_
#define LETHE_CORE_SVDD_SNAPSHOT_H_

#include <optional>
#include <span>
#include <vector>

#include "core/svdd/problem.h"

namespace lethe::svdd {

// A token with weight, in insertion order within the snapshot.
struct SupportToken {
  TokenHandle handle = 0;
  Label label = Label::kReserve;
  double alpha = 0.0;
};

// How a state was decided and how far it is from changing.
struct Proof {
  // True when the active set, every sign and every rounding is proven; false only for the warming
  // and empty phases, whose weights are 1/n by definition (bounds are 0 there but for the
  // readout's).
  bool decided_by_solver = false;
  int precision_bits = 0;  // 106: double-double; more: a higher rung
  // |KKT residual| of the refined solution before rounding; above the first rung a bound on what it
  // can do to a gradient.
  double residual = 0.0;
  double weight_bound = 0.0;  // |a - a*|_2 of the refined solution before rounding
  // On the decision function, rounding of weights and mu included; for exp_dot per unit of
  // sqrt(kappa(q, q)) where that is above 1.
  double decision_bound = 0.0;
  // Upper bound on the duality gap of the published weights, sum a_i max(g_i, 0) + (C - a_i)
  // max(-g_i, 0) >= |a - a*|_K^2, from fresh gradients.
  double gap_bound = 0.0;
  // For every query, each coordinate of the published weights' readout is within readout_bound
  // max_i |v_i| of the exact solution's (Readout::value_bound adds the rounding of one evaluation).
  double readout_bound = 0.0;
  // Lower bound on the strict complementarity of this state; infinite when nothing can change.
  double slack = 0.0;
  double lambda_min = 0.0;  // lower bound on the smallest eigenvalue of K over the margin groups
  double condition = 0.0;   // upper bound on the condition number of the same
};

// The value of a query. docs/math.md, section 6.
struct Readout {
  std::vector<double> value;       // sum_i a_i kappa(q, x_i) v_i / sum_i a_i kappa(q, x_i)
  double log_denominator = 0.0;    // ln sum_i a_i kappa(q, x_i); finite where all kappa underflow
  double kernel_sum = 0.0;         // sum_i a_i kappa(q, x_i); may underflow to 0
  std::optional<double> decision;  // 2 kernel_sum - kappa(q, q) + mu, where mu is unique
  // decision at both ends of the mu interval; unbounded ends are +-infinity. Equal where unique.
  double decision_low = 0.0;
  double decision_high = 0.0;
  // Every coordinate of `value` is within this of the exact problem's readout: rounding of the
  // weights, of the kernel and of the sums.
  double value_bound = 0.0;
  // The same for `decision` and its ends.
  double decision_bound = 0.0;
  std::vector<double> shares;  // a_i kappa(q, x_i) / the denominator, a support token each
};

class Snapshot {
 public:
  explicit Snapshot(const MemoryOptions& memory_options) : options(memory_options) {}

  Phase phase = Phase::kEmpty;
  MemoryOptions options;
  PartitionCounts counts;
  // Exactly one description of mu in the active phase: mu when a group of equal keys is in the
  // margin; otherwise an interval whose absent ends are unbounded.
  std::optional<double> mu;
  std::optional<double> mu_low;
  std::optional<double> mu_high;
  std::optional<double> radius_squared;  // a'Ka + mu, fp64 over the canonical weights
  Proof proof;

  std::vector<SupportToken> supports;  // insertion order; every token with alpha > 0
  std::vector<double> keys;            // row-major, supports.size() x key_dimension
  std::vector<double> values;          // row-major, supports.size() x value_dimension
  double largest_value = 0.0;          // max |v| over `values`; value bounds are shares of it

  // Requires phase != kEmpty, query.size() == key_dimension, finite coordinates, and for kernel_sum
  // and decision (their bound too) a query that kernel::ValidateKey takes: an exponent of exp_dot
  // above 709 counts as 709 there. Cost O(supports (d + m)). Deterministic: the same bits on every
  // machine (own exp, fixed order). `want_shares` fills Readout::shares.
  Readout Query(std::span<const double> query, bool want_shares) const;
};

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_SNAPSHOT_H_
