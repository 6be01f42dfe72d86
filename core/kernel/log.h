// ln of our own, by plain arithmetic and exp.h: the same bits on every machine, whatever its libm.
#ifndef LETHE_CORE_KERNEL_LOG_H_
#define LETHE_CORE_KERNEL_LOG_H_

#include <cmath>

#include "core/base/double_double.h"
#include "core/kernel/exp.h"

namespace lethe::kernel {

// ln x in double-double. Requires x > 0 and finite. Error at most kLogEpsilon max(1, |ln x|),
// judged against MPFR in the tests: as a double it is the exact one rounded, but for near misses,
// unless x is near 1. Cost about that of one ExpDoubleDouble.
inline constexpr double kLogEpsilon = 0x1p-98;

inline DoubleDouble LogDoubleDouble(double x) {
  // x = 2^exponent (1 + f), sqrt(1/2) <= 1 + f < sqrt(2); 1 + f and f are exact.
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < 0x1.6a09e667f3bcdp-1) {
    mantissa *= 2;
    --exponent;
  }
  const double f = mantissa - 1;
  // ln(1 + f) = 2 artanh s, s = f / (2 + f), |s| < 0.172: a first value, good to 2^-28 of it.
  const double s = f / (2 + f);
  const double square = s * s;
  const double first =
      2 * s * (1 + square * (1.0 / 3 + square * (1.0 / 5 + square * (1.0 / 7 + square / 9))));
  // ln(1 + f) = first + ln(1 + r), 1 + r = (1 + f) e^-first. From r^4 / 4 on nothing is left.
  DoubleDouble result(first);
  if (f != 0.0) {
    const DoubleDouble r =
        ExpDoubleDouble(DoubleDouble(-first)) * DoubleDouble(mantissa) - DoubleDouble(1.0);
    result += r - r * r * (DoubleDouble(0.5) - r / DoubleDouble(3.0));
  }
  constexpr DoubleDouble kLn2(0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56);
  return kLn2 * DoubleDouble(exponent) + result;
}

}  // namespace lethe::kernel

#endif  // LETHE_CORE_KERNEL_LOG_H_
