// The derivative of what a query reads, by everything it depends on: reverse mode through the exact
// solution, for the state that the memory publishes.
//
//     L = <readout_bar, o(q)> + decision_bar g(q) + log_denominator_bar ln D(q),   D = sum_i a_i
//     k_i
//
// With k_i = kappa(q, x_i), o the readout, and abar_i = dL/da_i at fixed keys, the weights' part of
// the derivative follows from one solve with the symmetric matrix of the margin S, the matrix whose
// factor the memory holds (docs/math.md, section 9):
//
//     [0 1'; 1 2 K_SS] (nu, w) = (decision_bar, abar_S)
//     dL = sum_{s in S} w_s (dK_ss - 2 sum_j a_j dK_sj)
//          + (sum_{e in E} abar_e - nu |E| - 2 sum_{s in S, e in E} w_s K_se) dC
//
// to which the readout's own dependence on keys, values, query and kernel is added. The partition
// is held fixed: where the optimum changes its partition the function has a kink, and what is
// returned is the derivative of one side of it (GradientFlags::small_slack).
//
// Units: weights are a (sum 1), C is the box in (0, 1]; for a capacity N = 1/C, dL/dN = -C^2 dL/dC.
//
// Source: the adjoint of the fixed-partition solution of arXiv 2607.12204, which leaves out dL/dC;
// that term is derived in docs/math.md, section 9.
#ifndef LETHE_CORE_SVDD_GRADIENT_H_
#define LETHE_CORE_SVDD_GRADIENT_H_

#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "core/svdd/memory.h"

namespace lethe::svdd {

// A slack below this makes the derivative that of one side of a kink.
inline constexpr double kSmallSlack = 1e-9;

// What a caller must know before using the numbers. None of them makes the numbers wrong as
// derivatives at fixed partition.
struct GradientFlags {
  // Proof::slack, or the distance of a partly filled copy's weight from 0 and from C, is below
  // kSmallSlack: a step of that size changes the partition, and the derivative holds on one side at
  // best.
  bool small_slack = false;
  // Tokens with weight share a key. The weights' part is the derivative of moving the whole group;
  // each copy gets the share of it that it has of the group's weight (equal shares under kShared),
  // so that the copies' rows add up to the group's derivative. Moving one copy alone splits the
  // group, which is another partition. Copies without weight are not looked at.
  bool copies = false;
  // No group is in the margin: the weights stand at C, none of them moves with a key or the kernel,
  // and dL/dC is sum_E abar_e, although every step of C changes the partition.
  bool no_margin = false;
  // Weights are 1/n, which nothing but the number of tokens moves: dL/dC = 0.
  bool warming = false;
  // laplacian: the query equals a key with weight, where exp(-gamma |q - x|) has a kink; its
  // contribution to both is taken as 0, the mean of all directions.
  bool coinciding = false;
};

struct Gradients {
  // Every token with weight, in insertion order. A token in reserve has weight 0 whatever its key
  // and value are, as long as the partition holds: its derivatives are exactly 0 and it has no row.
  std::vector<TokenHandle> handles;
  std::vector<double> keys;       // dL/dx_i, row-major, handles.size() x key_dimension
  std::vector<double> values;     // dL/dv_i, row-major, handles.size() x value_dimension
  std::vector<double> query;      // dL/dq, key_dimension
  double kernel_parameter = 0.0;  // dL/dgamma or dL/dscale
  double box = 0.0;               // dL/dC
  GradientFlags flags;
};

// Shapes: `query` key_dimension, `readout_bar` value_dimension. An absent `decision_bar` or
// `log_denominator_bar` counts as 0.
//
// Arithmetic is double-double throughout and rounded once. The solve uses the factor that the
// memory holds, refined until the residual is that of double-double (two or three solves). Where
// that is not possible or not enough, everything is done in 640 bits with a factor made anew: K_SS
// singular in double-double; keys so near each other that the multipliers w are above 2^60 times
// what they come from; under kNewestFirst, a margin group whose oldest copy has no weight.
//
// Cost O(|S|^2 + (|S| + |E|)(d + m) + |S| (|S| + |E|) d), the last for the pairs of kernel values,
// about a microsecond a pair at d = 16; |S|^2 double-doubles of memory. In 640 bits O(|S|^3)
// and some thirty times the time.
//
// Errors, nothing is changed by the call: INVALID_ARGUMENT names "query", "query[i]",
// "readout_bar", "readout_bar[i]", "decision_bar" or "log_denominator_bar" (wrong size, not finite,
// kernel overflow). FAILED_PRECONDITION: the memory is empty; decision_bar is given and mu is not
// unique (decision has no value then); under kNewestFirst, a margin group's copies are filled
// exactly to the box, where the derivative depends on the direction (kOldestFirst raises
// small_slack); K_SS cannot be told from singular at 640 bits. OUT_OF_RANGE: a derivative overflows
// a double.
//
// Deterministic for the same calls on the same machine. Not a published bit: the history of the
// held factor may show in the last one. Threads: reads the memory, so no change may run beside it.
absl::StatusOr<Gradients> Backward(const ExactMemory& memory,
                                   std::span<const double> query,
                                   std::span<const double> readout_bar,
                                   std::optional<double> decision_bar,
                                   std::optional<double> log_denominator_bar);

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_GRADIENT_H_
