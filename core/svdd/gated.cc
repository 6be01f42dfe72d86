#include "core/svdd/gated.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/kernel/exp.h"
#include "core/kernel/log.h"

namespace lethe::svdd {
namespace {

constexpr double kUnit = 0x1p-53;

}  // namespace

GatedReadout GatedSoftmax(const Snapshot& snapshot,
                          std::span<const double> query,
                          const LocalChunk& chunk) {
  const auto d = static_cast<size_t>(snapshot.options.key_dimension);
  const auto m = static_cast<size_t>(snapshot.options.value_dimension);
  const size_t tokens = snapshot.supports.size();
  const size_t locals = chunk.keys.size() / d;
  LETHE_CHECK(tokens + locals > 0 && query.size() == d && chunk.keys.size() == locals * d &&
              chunk.values.size() == locals * m);

  const auto key_of = [&](size_t i) -> std::span<const double> {
    return i < tokens ? std::span<const double>(snapshot.keys.data() + i * d, d)
                      : chunk.keys.subspan((i - tokens) * d, d);
  };
  // In units of the largest factor, so that no sum of values overflows.
  const double unit = std::max(chunk.gate, 1.0);
  const double token_factor = chunk.gate / unit;
  const double local_weight = 1.0 / unit;
  const auto weight_of = [&](size_t i) {
    return i < tokens ? token_factor * snapshot.supports[i].alpha : local_weight;
  };
  // Exponents in double-double, as in Snapshot::Query: an error of 1e-16 of a large one would show.
  const kernel::Kernel dot{kernel::KernelKind::kExpDot, chunk.scale};
  std::vector<DoubleDouble> exponents;
  exponents.reserve(tokens + locals);
  const DoubleDouble* largest = nullptr;
  double magnitude = 0.0;  // of sum |scale q_k x_k|
  bool lost = false;       // a weight above 0 that the gate made 0
  for (size_t i = 0; i < tokens + locals; ++i) {
    const std::span<const double> key = key_of(i);
    exponents.push_back(kernel::Exponent(dot, query, key));
    double sum = 0.0;
    for (size_t k = 0; k < d; ++k) sum += std::abs(query[k] * key[k]);
    magnitude = std::max(magnitude, chunk.scale * sum);
  }
  // Of a weight that was rounded to 0 nothing is left in any answer; where the gate did that, it
  // may have been all of it.
  for (size_t i = 0; i < tokens + locals; ++i) {
    if (weight_of(i) == 0.0) {
      lost |= snapshot.supports[i].alpha > 0.0;
      continue;
    }
    if (largest == nullptr || exponents[i] > *largest) largest = &exponents[i];
  }
  LETHE_CHECK(largest != nullptr);
  const DoubleDouble shift = *largest;

  GatedReadout result;
  result.value.assign(m, 0.0);
  result.shares.reserve(tokens);
  double denominator = 0.0;
  double local = 0.0;
  double largest_value = snapshot.largest_value;
  for (size_t i = 0; i < tokens + locals; ++i) {
    const double alpha = weight_of(i);
    const double weight = alpha == 0.0 ? 0.0 : alpha * kernel::ExpDouble(exponents[i] - shift);
    const double* value =
        i < tokens ? &snapshot.values[i * m] : chunk.values.data() + (i - tokens) * m;
    denominator += weight;
    if (i < tokens) {
      result.shares.push_back(weight);
    } else {
      local += weight;
      for (size_t k = 0; k < m; ++k) largest_value = std::max(largest_value, std::abs(value[k]));
    }
    for (size_t k = 0; k < m; ++k) result.value[k] += weight * value[k];
  }
  for (double& value : result.value) value /= denominator;
  for (double& share : result.shares) share /= denominator;
  result.local_share = local / denominator;
  result.log_denominator =
      (shift + kernel::LogDoubleDouble(denominator) + kernel::LogDoubleDouble(unit)).hi;

  // As in Snapshot::Query: the weights' own error (a relative one of each, so that other factors
  // than the kernel's change nothing), that of the exponents, a product and a division for the
  // gate, the sums. A convex combination is never further off than its range.
  const auto count = static_cast<double>(tokens + locals);
  const double of_exponents = 1.01 * (3 * magnitude + 745.0) *
                              (static_cast<double>(snapshot.options.key_dimension) + 10) *
                              kDoubleDoubleEpsilon;
  const double relative = snapshot.proof.readout_bound / 2 + of_exponents + (count + 10) * kUnit +
                          count * 0x1p-1073 / denominator;
  result.value_bound = relative < 0.25 && !lost
                           ? (2 * relative / (1 - relative) + 2 * kUnit) * largest_value
                           : 2 * largest_value;
  return result;
}

}  // namespace lethe::svdd
