// The three kernels and their evaluation in the arithmetics that the solver climbs through.
//
//     rbf        kappa(x, y) = exp(-gamma |x - y|^2)
//     laplacian  kappa(x, y) = exp(-gamma |x - y|)
//     exp_dot    kappa(x, y) = exp(scale <x, y>)          the only one whose diagonal is not 1
#ifndef LETHE_CORE_KERNEL_KERNEL_H_
#define LETHE_CORE_KERNEL_KERNEL_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "core/base/double_double.h"
#include "core/base/mp_real.h"

namespace lethe::kernel {

enum class KernelKind : uint8_t { kRbf = 1, kLaplacian = 2, kExpDot = 3 };

struct Kernel {
  KernelKind kind = KernelKind::kRbf;
  double parameter = 1.0;  // gamma or scale, > 0

  friend bool operator==(const Kernel&, const Kernel&) = default;
};

// Within these limits no exponent overflows and none loses its digits to underflow.
inline constexpr double kMinParameter = 1e-100;
inline constexpr double kMaxParameter = 1e100;
inline constexpr double kMaxCoordinate = 1e100;
// exp_dot: scale sum x_k^2 of a key. e^300 leaves room for products and sums of kernel values.
inline constexpr double kMaxDotExponent = 300.0;

// Squares of differences below 2^-537 underflow; with the largest parameter, 2^333, and the square
// root of laplacian that is an absolute error of the exponent below this.
inline constexpr double kExponentUnderflow = 0x1p-170;

// Parameter in its limits. INVALID_ARGUMENT names "kernel.gamma" or "kernel.scale".
absl::Status Validate(const Kernel& kernel);

// Coordinates and, for exp_dot, the exponent of the key with itself in their limits.
// INVALID_ARGUMENT names "key" and the limit, never the key's numbers. Requires finite coordinates.
absl::Status ValidateKey(const Kernel& kernel, std::span<const double> key);

// kappa = exp(t): t in double-double. Relative error of a squared distance, and so of t for rbf and
// laplacian, at most (d + 8) 2^-102, and an absolute one below 2^-170 from underflow; for exp_dot
// an absolute error of (d + 8) 2^-102 scale sum |x_k y_k|. Requires equal sizes. Cost about 20 d
// operations. Deterministic: plain arithmetic only.
DoubleDouble Exponent(const Kernel& kernel, std::span<const double> x, std::span<const double> y);

// A computed kernel value and a bound on its absolute error.
struct Approximate {
  double value;
  double error;
};
struct ApproximateDoubleDouble {
  DoubleDouble value;
  double error;
};
struct ApproximateMp {
  MpReal value;
  double units;  // |error| <= units 2^-precision |value|
};

// In double with libm's exp, whose error is taken as 4 ulp: decides signs when they are far from
// zero, never a published bit. Cost 3 d operations and one exp.
Approximate EvaluateDouble(const Kernel& kernel,
                           std::span<const double> x,
                           std::span<const double> y);
ApproximateDoubleDouble EvaluateDoubleDouble(const Kernel& kernel,
                                             std::span<const double> x,
                                             std::span<const double> y);
// At the precision of the current PrecisionScope.
ApproximateMp EvaluateMp(const Kernel& kernel,
                         std::span<const double> x,
                         std::span<const double> y);

// kappa(x, x) as an exact 1 (rbf, laplacian) or exp(scale |x|^2) in double, for scales and bounds.
double Diagonal(const Kernel& kernel, std::span<const double> x);

}  // namespace lethe::kernel

#endif  // LETHE_CORE_KERNEL_KERNEL_H_
