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

namespace lethe::kernel {

enum class KernelKind : uint8_t { kRbf = 1, kLaplacian = 2, kExpDot = 3 };

struct Kernel {
  KernelKind kind = KernelKind::kRbf;
  double parameter = 1.0;  // gamma or scale, > 0

  friend bool operator==(const Kernel&, const Kernel&) = default;
};

// INVALID_ARGUMENT names "kernel.gamma" or "kernel.scale".
absl::Status Validate(const Kernel& kernel);

// Whether the kernel of this key with itself is far enough from overflow. INVALID_ARGUMENT names
// "key" and the limit. Requires finite coordinates.
absl::Status ValidateKey(const Kernel& kernel, std::span<const double> key);

}  // namespace lethe::kernel

#endif  // LETHE_CORE_KERNEL_KERNEL_H_
