#include "core/kernel/kernel.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/kernel/exp.h"

namespace lethe::kernel {
namespace {

constexpr double kUnit = 0x1p-53;
// Below, exp is under 2^-1074 whatever the rounding.
constexpr double kUnderflow = -750.0;

DoubleDouble SquaredDistance(std::span<const double> x, std::span<const double> y) {
  DoubleDouble sum;
  for (size_t k = 0; k < x.size(); ++k) {
    const DoubleDouble difference = TwoSum(x[k], -y[k]);
    sum += difference * difference;
  }
  return sum;
}

double AbsoluteDot(std::span<const double> x, std::span<const double> y) {
  double sum = 0.0;
  for (size_t k = 0; k < x.size(); ++k) sum += std::abs(x[k] * y[k]);
  return sum;
}

}  // namespace

absl::Status Validate(const Kernel& kernel) {
  const bool dot = kernel.kind == KernelKind::kExpDot;
  if (!(kernel.parameter >= kMinParameter) || !(kernel.parameter <= kMaxParameter)) {
    return absl::InvalidArgumentError(absl::StrCat(dot ? "kernel.scale" : "kernel.gamma",
                                                   ": must be in [", kMinParameter, ", ",
                                                   kMaxParameter, "], got ", kernel.parameter));
  }
  return absl::OkStatus();
}

absl::Status ValidateKey(const Kernel& kernel, std::span<const double> key) {
  for (size_t k = 0; k < key.size(); ++k) {
    if (!(std::abs(key[k]) <= kMaxCoordinate)) {
      return absl::InvalidArgumentError(
          absl::StrCat("key[", k, "]: is above ", kMaxCoordinate, " in magnitude"));
    }
  }
  if (kernel.kind == KernelKind::kExpDot &&
      !(kernel.parameter * AbsoluteDot(key, key) <= kMaxDotExponent)) {
    return absl::InvalidArgumentError(
        absl::StrCat("key: scale times the sum of its squares is above ", kMaxDotExponent,
                     ", too much for exp_dot"));
  }
  return absl::OkStatus();
}

DoubleDouble Exponent(const Kernel& kernel, std::span<const double> x, std::span<const double> y) {
  LETHE_CHECK(x.size() == y.size());
  switch (kernel.kind) {
    case KernelKind::kRbf:
      return -(DoubleDouble(kernel.parameter) * SquaredDistance(x, y));
    case KernelKind::kLaplacian:
      return -(DoubleDouble(kernel.parameter) * Sqrt(SquaredDistance(x, y)));
    case KernelKind::kExpDot:
      break;
  }
  DoubleDouble sum;
  for (size_t k = 0; k < x.size(); ++k) sum += TwoProduct(x[k], y[k]);
  return DoubleDouble(kernel.parameter) * sum;
}

Approximate EvaluateDouble(const Kernel& kernel,
                           std::span<const double> x,
                           std::span<const double> y) {
  const double d = static_cast<double>(x.size());
  double sum = 0.0;
  if (kernel.kind == KernelKind::kExpDot) {
    for (size_t k = 0; k < x.size(); ++k) sum += x[k] * y[k];
    const double value = std::exp(kernel.parameter * sum);
    const double magnitude = kernel.parameter * AbsoluteDot(x, y);
    return {value, value * kUnit * 1.01 * (magnitude * (d + 3) + 8) + 0x1p-1070};
  }
  for (size_t k = 0; k < x.size(); ++k) {
    const double difference = x[k] - y[k];
    sum += difference * difference;
  }
  const double t = kernel.parameter * (kernel.kind == KernelKind::kRbf ? sum : std::sqrt(sum));
  const double value = std::exp(-t);
  return {value, value * (kUnit * 1.01 * (t * (d + 5) + 8) + kExponentUnderflow) + 0x1p-1070};
}

ApproximateDoubleDouble EvaluateDoubleDouble(const Kernel& kernel,
                                             std::span<const double> x,
                                             std::span<const double> y) {
  const DoubleDouble t = Exponent(kernel, x, y);
  if (t.hi < kUnderflow) return {{}, 0x1p-1060};
  const double d = static_cast<double>(x.size());
  const DoubleDouble value = ExpDoubleDouble(t);
  const double magnitude =
      kernel.kind == KernelKind::kExpDot ? kernel.parameter * AbsoluteDot(x, y) : std::abs(t.hi);
  return {value, value.hi * (1.01 * (magnitude * (d + 9) * kDoubleDoubleEpsilon + kExpEpsilon) +
                             kExponentUnderflow) +
                     0x1p-1060};
}

ApproximateMp EvaluateMp(const Kernel& kernel,
                         std::span<const double> x,
                         std::span<const double> y) {
  const double d = static_cast<double>(x.size());
  MpReal sum;
  if (kernel.kind == KernelKind::kExpDot) {
    for (size_t k = 0; k < x.size(); ++k) sum += MpReal(x[k]) * MpReal(y[k]);
    return {Exp(MpReal(kernel.parameter) * sum),
            1.01 * (kernel.parameter * AbsoluteDot(x, y) * (d + 3) + 2)};
  }
  for (size_t k = 0; k < x.size(); ++k) {
    const MpReal difference = MpReal(x[k]) - MpReal(y[k]);
    sum += difference * difference;
  }
  const MpReal t = MpReal(kernel.parameter) * (kernel.kind == KernelKind::kRbf ? sum : Sqrt(sum));
  const double magnitude = ToDouble(t);
  return {Exp(-t), 1.01 * (magnitude * (d + 5) + 2)};
}

double Diagonal(const Kernel& kernel, std::span<const double> x) {
  if (kernel.kind != KernelKind::kExpDot) return 1.0;
  return EvaluateDouble(kernel, x, x).value;
}

}  // namespace lethe::kernel
