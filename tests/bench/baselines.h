// What others keep, or do, at the same budget. Each rule is a few lines, so that a reader can check
// that it is what it says. Kept tokens are returned as ascending indices.
#ifndef LETHE_TESTS_BENCH_BASELINES_H_
#define LETHE_TESTS_BENCH_BASELINES_H_

#include <span>
#include <vector>

#include "core/svdd/snapshot.h"
#include "tests/bench/data.h"

namespace lethe::bench {

using Kept = std::vector<size_t>;

// The `budget` largest of `scores`; the earlier one of equals.
Kept Top(std::span<const double> scores, size_t budget);

// For each key the sum of the kernel over all `observers`.
Vector KernelMass(std::span<const Vector> keys, std::span<const Vector> observers, double gamma);

// Heavy hitters of a stream (H2O): each arriving key is also a query; its softmax scores over the
// kept tokens, itself included, with logits -gamma |x - y|^2, are added to running sums. Above the
// budget the token with the smallest sum is evicted, the budget / 2 most recent ones excepted.
Kept StreamingH2O(std::span<const Vector> keys, size_t budget, double gamma);

Kept Recent(size_t tokens, size_t budget);
Kept AtRandom(size_t tokens, size_t budget, Random& random);

// Coefficient decay as an eviction: the most recent `budget` tokens keep the coefficient 1, all
// others stay with 0.01, and nothing is solved again. It holds every token.
Vector DecayedByAge(size_t tokens, size_t budget);

// Coefficient decay as forgetting: the weights of `forgotten` times 0.01, divided by the new sum;
// nothing is solved again. Parallel to state.supports.
Vector DecayedWeights(const svdd::Snapshot& state, std::span<const svdd::TokenHandle> forgotten);

}  // namespace lethe::bench

#endif  // LETHE_TESTS_BENCH_BASELINES_H_
