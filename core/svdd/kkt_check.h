// The independent judge of a published state: straight from the definition in fp64, sharing no code
// with the solver.
//
//     g_i = 2 sum_j K_ij a_j - K_ii + mu     reserve g_i >= 0, error g_i <= 0, margin g_i = 0
//     gap = sum_i a_i max(g_i, 0) + (C - a_i) max(-g_i, 0)  >= |a - a*|_K^2
//
// where mu is an interval, each token is held against the end that is harder on it. Cost O(n |S u
// E| d).
#ifndef LETHE_CORE_SVDD_KKT_CHECK_H_
#define LETHE_CORE_SVDD_KKT_CHECK_H_

#include <cmath>
#include <span>

#include "core/svdd/snapshot.h"

namespace lethe::svdd {

struct KktReport {
  double max_violation = 0.0;  // the largest amount by which a g_i has the wrong sign
  double gap = 0.0;
  double mass_error = 0.0;  // |sum a - 1|
  double tolerance = 0.0;   // what fp64 rounding of this very evaluation can explain
  bool labels_match_weights =
      false;  // reserve <=> 0, error <=> C, margin strictly between; counts too
  // All of the above within tolerance.
  bool ok() const {
    // Written so that a NaN anywhere is not ok, and an overflow does not excuse itself.
    return labels_match_weights && std::isfinite(tolerance) && max_violation <= tolerance &&
           mass_error <= tolerance;
  }
};

// `keys`: n x d row-major, every retained token in insertion order; `handles`: their handles.
KktReport CheckKkt(const Snapshot& state,
                   std::span<const double> keys,
                   std::span<const TokenHandle> handles);

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_KKT_CHECK_H_
