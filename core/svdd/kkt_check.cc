#include "core/svdd/kkt_check.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/check.h"

namespace lethe::svdd {
namespace {

// The kernels once more, from their definition: this file shares no arithmetic with what it judges.
// `exponent_error` grows to the largest relative error that the rounding of the exponent can cause.
double KernelValue(const kernel::Kernel& kernel,
                   const double* x,
                   const double* y,
                   size_t d,
                   double* exponent_error) {
  double sum = 0.0;
  double magnitude = 0.0;
  for (size_t k = 0; k < d; ++k) {
    const double term =
        kernel.kind == kernel::KernelKind::kExpDot ? x[k] * y[k] : (x[k] - y[k]) * (x[k] - y[k]);
    sum += term;
    magnitude += std::abs(term);
  }
  double exponent = 0.0;
  switch (kernel.kind) {
    case kernel::KernelKind::kRbf:
      exponent = -kernel.parameter * sum;
      magnitude *= kernel.parameter;
      break;
    case kernel::KernelKind::kLaplacian:
      exponent = -kernel.parameter * std::sqrt(sum);
      magnitude = -exponent;
      break;
    case kernel::KernelKind::kExpDot:
      exponent = kernel.parameter * sum;
      magnitude *= kernel.parameter;
      break;
  }
  const double value = std::exp(exponent);
  *exponent_error = std::max(*exponent_error, value * magnitude * static_cast<double>(d + 4));
  return value;
}

}  // namespace

KktReport CheckKkt(const Snapshot& state,
                   std::span<const double> keys,
                   std::span<const TokenHandle> handles) {
  const auto d = static_cast<size_t>(state.options.key_dimension);
  const size_t n = handles.size();
  LETHE_CHECK(keys.size() == n * d);
  KktReport report;

  // The weights as a dense vector, and what labels say about them.
  std::vector<double> alpha(n, 0.0);
  std::vector<Label> label(n, Label::kReserve);
  const double box = state.options.capacity.weight_at_box();
  bool consistent = std::is_sorted(handles.begin(), handles.end());
  PartitionCounts counts;
  size_t position = 0;
  double mass = 0.0;
  for (const SupportToken& token : state.supports) {
    while (position < n && handles[position] != token.handle) ++position;
    if (position == n) {
      consistent = false;
      break;
    }
    alpha[position] = token.alpha;
    label[position] = token.label;
    mass += token.alpha;
    const bool active = state.phase == Phase::kActive;
    if (token.label == Label::kError) {
      ++counts.error;
      consistent &= !active || token.alpha == box;
    } else {
      ++counts.margin;
      // The exact mass is strictly inside; rounded, it may stand on a bound.
      consistent &= token.label == Label::kMargin && token.alpha >= 0.0 && token.alpha <= box;
    }
  }
  counts.reserve = n - state.supports.size();
  report.labels_match_weights = consistent && counts == state.counts;
  constexpr double kUnit = 0x1p-53;
  const auto supports = static_cast<double>(state.supports.size());
  if (state.phase != Phase::kActive) {
    report.mass_error = n == 0 ? 0.0 : std::abs(mass - 1.0);
    report.tolerance = 2 * (supports + 4) * kUnit;
    return report;
  }

  double magnitude = 1.0;
  double exponent_error = 0.0;
  for (size_t i = 0; i < n; ++i) {
    double sum = 0.0;
    for (size_t j = 0; j < n; ++j) {
      if (alpha[j] == 0.0) continue;
      sum += alpha[j] * KernelValue(state.options.kernel, keys.data() + i * d, keys.data() + j * d,
                                    d, &exponent_error);
    }
    const double own = KernelValue(state.options.kernel, keys.data() + i * d, keys.data() + i * d,
                                   d, &exponent_error);
    magnitude = std::max({magnitude, own, 2 * sum});
    const double slope = 2 * sum - own;
    double mu = 0.0;
    if (state.mu.has_value()) {
      mu = *state.mu;
    } else {
      // The end of the interval that is harder on this token.
      mu = (label[i] == Label::kReserve ? state.mu_low : state.mu_high).value_or(-slope);
    }
    magnitude = std::max(magnitude, std::abs(mu));
    const double g = slope + mu;
    double violation = 0.0;
    if (label[i] == Label::kReserve && !(g >= 0.0)) violation = -g;
    if (label[i] == Label::kError && !(g <= 0.0)) violation = g;
    if (label[i] == Label::kMargin) violation = std::abs(g);
    // Not std::max, which would lose a NaN.
    if (!(violation <= report.max_violation)) report.max_violation = violation;
    report.gap += alpha[i] * std::max(g, 0.0) + std::max(0.0, box - alpha[i]) * std::max(-g, 0.0);
  }
  report.mass_error = std::abs(mass - 1.0);
  report.tolerance = 4 * kUnit * (magnitude * (supports + 8) + exponent_error);
  return report;
}

}  // namespace lethe::svdd
