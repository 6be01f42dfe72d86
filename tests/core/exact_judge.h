// The exact judge: recomputes a published state's solution from the tokens in 200 digits and says
// whether every published bit is the correct rounding and every sign right.
//
// It shares no code with core: keys are grouped, kernels evaluated, systems solved and numbers
// rounded anew, by Gaussian elimination in MPFR through Boost.Multiprecision. It takes the labels
// from the state and proves or refutes them: a feasible point with the right signs is the optimum.
#ifndef LETHE_TESTS_CORE_EXACT_JUDGE_H_
#define LETHE_TESTS_CORE_EXACT_JUDGE_H_

#include <boost/multiprecision/mpfr.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/svdd/snapshot.h"
#include "tests/core/state_checks.h"

namespace lethe::svdd {

using Exact = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<200>,
                                            boost::multiprecision::et_off>;

Exact ExactKernel(const kernel::Kernel& kernel,
                  std::span<const double> x,
                  std::span<const double> y);

// The real number rounded to nearest once; a midpoint goes where its decimal of 25 digits goes.
double RoundOnce(const Exact& value);

// What problem (1) gives for the labels of a state, in units of a. Published numbers are compared
// with it; `fault` says why there is none (labels that no feasible point has, or a system too
// singular for these digits).
struct ExactSolution {
  std::string fault;
  std::vector<Exact> alpha;  // a token each, in the order of the tokens
  std::optional<Exact> mu;
  std::optional<Exact> mu_low;
  std::optional<Exact> mu_high;

  // sum a_i kappa(q, x_i), and the readout.
  Exact KernelSum(const MemoryOptions& options,
                  std::span<const OwnedToken> tokens,
                  std::span<const double> query) const;
  std::vector<Exact> Readout(const MemoryOptions& options,
                             std::span<const OwnedToken> tokens,
                             std::span<const double> query) const;
};

// `tokens`: all that are retained, in insertion order.
ExactSolution SolveExactly(const Snapshot& state, std::span<const OwnedToken> tokens);

// Empty when every published label, weight, count and end of mu is right; else the first that is
// not.
std::string ExactFault(const Snapshot& state, std::span<const OwnedToken> tokens);

// The gap of the published weights at this mu: sum a_i max(g_i, 0) + max(C - a_i, 0) max(-g_i, 0).
Exact ExactGap(const Snapshot& state, std::span<const OwnedToken> tokens, const Exact& mu);

}  // namespace lethe::svdd

#endif  // LETHE_TESTS_CORE_EXACT_JUDGE_H_
