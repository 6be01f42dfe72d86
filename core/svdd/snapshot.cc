#include "core/svdd/snapshot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/check.h"
#include "core/kernel/exp.h"
#include "core/kernel/log.h"

namespace lethe::svdd {
namespace {

// exp never sees more than this, so that a sum of kernel values stays finite.
constexpr double kLargestExponent = 709.0;
constexpr double kUnit = 0x1p-53;

// How far off a computed exponent can be, relative to its kernel value: of every token whose share
// is above e^-745, which is within that of the largest exponent.
double ExponentError(const MemoryOptions& options,
                     std::span<const double> query,
                     const DoubleDouble& largest) {
  double magnitude = 2 * std::abs(largest.hi) + 745.0;
  if (options.kernel.kind == kernel::KernelKind::kExpDot) {
    // scale sum |q_k x_k| <= sqrt(scale |q|^2) sqrt(scale |x|^2)
    double square = 0.0;
    for (const double coordinate : query) square += coordinate * coordinate;
    magnitude += 2 * std::sqrt(options.kernel.parameter * square * kernel::kMaxDotExponent);
  }
  return 1.01 * magnitude * (static_cast<double>(options.key_dimension) + 10) *
         kDoubleDoubleEpsilon;
}

}  // namespace

Readout Snapshot::Query(std::span<const double> query, bool want_shares) const {
  const auto d = static_cast<size_t>(options.key_dimension);
  const auto m = static_cast<size_t>(options.value_dimension);
  LETHE_CHECK(phase != Phase::kEmpty && query.size() == d);

  // Exponents in double-double: far from everything they are large, and an error of 1e-16 of them
  // would show in the readout.
  std::vector<DoubleDouble> exponents;
  exponents.reserve(supports.size());
  const DoubleDouble* largest = nullptr;
  for (size_t i = 0; i < supports.size(); ++i) {
    exponents.push_back(kernel::Exponent(options.kernel, query, {keys.data() + i * d, d}));
  }
  // Of a weight that is so small that it was rounded to 0 nothing is left in any answer.
  for (size_t i = 0; i < supports.size(); ++i) {
    if (supports[i].alpha == 0.0) continue;
    if (largest == nullptr || exponents[i] > *largest) largest = &exponents[i];
  }
  const DoubleDouble shift = *largest;

  Readout result;
  result.value.assign(m, 0.0);
  if (want_shares) result.shares.reserve(supports.size());
  double denominator = 0.0;
  for (size_t i = 0; i < supports.size(); ++i) {
    const double alpha = supports[i].alpha;
    const double weight = alpha == 0.0 ? 0.0 : alpha * kernel::ExpDouble(exponents[i] - shift);
    denominator += weight;
    if (want_shares) result.shares.push_back(weight);
    for (size_t k = 0; k < m; ++k) result.value[k] += weight * values[i * m + k];
  }
  for (double& value : result.value) value /= denominator;
  for (double& share : result.shares) share /= denominator;
  // Each term is off by its weight's and its kernel value's error, each sum by its roundings; both
  // sums together twice that. A convex combination is never further off than its range.
  const auto count = static_cast<double>(supports.size());
  const double relative = proof.readout_bound / 2 + ExponentError(options, query, shift) +
                          (count + 6) * kUnit + count * 0x1p-1073 / denominator;
  result.value_bound = relative < 0.25 ? (2 * relative / (1 - relative) + 2 * kUnit) * largest_value
                                       : 2 * largest_value;
  result.log_denominator = (shift + kernel::LogDoubleDouble(denominator)).hi;
  result.kernel_sum =
      denominator * kernel::ExpDouble(std::min(shift, DoubleDouble(kLargestExponent)));

  if (phase == Phase::kActive) {
    const double self =
        options.kernel.kind == kernel::KernelKind::kExpDot
            ? kernel::ExpDouble(std::min(kernel::Exponent(options.kernel, query, query),
                                         DoubleDouble(kLargestExponent)))
            : 1.0;
    const double base = 2 * result.kernel_sum - self;
    const double end = std::max({std::abs(mu.value_or(0.0)), std::abs(mu_low.value_or(0.0)),
                                 std::abs(mu_high.value_or(0.0))});
    const double scale = options.kernel.kind == kernel::KernelKind::kExpDot
                             ? std::max(1.0, std::sqrt(self) * (1 + 0x1p-30))
                             : 1.0;
    const double evaluation = ExponentError(options, query, shift) + (count + 8) * kUnit;
    result.decision_bound =
        1.01 * (proof.decision_bound * scale + evaluation * (2 * result.kernel_sum + self + end)) +
        0x1p-1070;
    if (mu.has_value()) {
      result.decision = base + *mu;
      result.decision_low = result.decision_high = *result.decision;
    } else {
      constexpr double kInfinity = std::numeric_limits<double>::infinity();
      result.decision_low = mu_low.has_value() ? base + *mu_low : -kInfinity;
      result.decision_high = mu_high.has_value() ? base + *mu_high : kInfinity;
    }
  }
  return result;
}

}  // namespace lethe::svdd
