// A softmax over a memory and over keys beside it: what a layer of attention reads whose prefix is
// an exact memory and whose chunk at hand is in none.
//
//     t_i = scale <q, x_i>,     o(q) = (sum_S gate a_i e^(t_i) v_i + sum_L e^(t_j) u_j) / Z(q)
//     Z(q) = sum_S gate a_i e^(t_i) + sum_L e^(t_j)
//
// over the tokens with weight S, whatever the memory's kernel is, and the chunk L. docs/math.md,
// section 6.
#ifndef LETHE_CORE_SVDD_GATED_H_
#define LETHE_CORE_SVDD_GATED_H_

#include <span>
#include <vector>

#include "core/svdd/snapshot.h"

namespace lethe::svdd {

// Row-major; requires as many keys as values, of the memory's dimensions, and in the limits of
// tokens (coordinates up to kernel::kMaxCoordinate, values up to kMaxValue).
struct LocalChunk {
  std::span<const double> keys;
  std::span<const double> values;
  double scale = 1.0;  // in the limits of a kernel's parameter
  double gate = 1.0;   // likewise
};

struct GatedReadout {
  std::vector<double> value;
  double log_denominator = 0.0;  // ln Z(q)
  // Every coordinate of `value` is within this of the exact problem's: rounding of the weights, of
  // the exponentials and of the sums.
  double value_bound = 0.0;
  std::vector<double> shares;  // of a support token each: gate a_i e^(t_i) / Z(q)
  double local_share = 0.0;    // of the whole chunk; all shares sum to 1
};

// Requires a token with weight or a key in the chunk, query.size() == key_dimension, and the query
// in the limits of a key. Cost O((|S| + |L|) (d + m)). Deterministic: the same bits on every
// machine (own exp, fixed order). Threads: any.
GatedReadout GatedSoftmax(const Snapshot& snapshot,
                          std::span<const double> query,
                          const LocalChunk& chunk);

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_GATED_H_
