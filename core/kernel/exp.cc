#include "core/kernel/exp.h"

#include <cmath>

#include "core/kernel/exp_core.h"

namespace lethe::kernel {

DoubleDouble ExpDoubleDouble(DoubleDouble x) {
  if (x.hi < -745.2) return {};
  double shifted = 0.0;
  const DoubleDouble s = ExpReduced(x, shifted);
  const int exponent = static_cast<int>(shifted - kRoundingShift);
  return {std::ldexp(s.hi, exponent), std::ldexp(s.lo, exponent)};
}

double ExpDouble(DoubleDouble x) {
  if (x.hi < -745.2) return 0.0;
  const double k = ShiftedMultiple(x.hi) - kRoundingShift;
  // k kLn2High is exact and so is the difference (Sterbenz); the rest is small.
  const double r = (x.hi - k * kLn2High) + (x.lo - k * kLn2Middle);
  // Taylor to r^13/13! on |r| <= 0.3466: remainder below 2^-57 of the result.
  double p = 1.0 / 6227020800.0;
  constexpr double kCoefficients[] = {1.0 / 479001600.0,
                                      1.0 / 39916800.0,
                                      1.0 / 3628800.0,
                                      1.0 / 362880.0,
                                      1.0 / 40320.0,
                                      1.0 / 5040.0,
                                      1.0 / 720.0,
                                      1.0 / 120.0,
                                      1.0 / 24.0,
                                      1.0 / 6.0,
                                      0.5};
  for (const double coefficient : kCoefficients) p = p * r + coefficient;
  return std::ldexp(1.0 + (r + r * r * p), static_cast<int>(k));
}

}  // namespace lethe::kernel
