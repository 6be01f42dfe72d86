// exp of our own, in plain arithmetic: the same bits on every machine, whatever its libm.
#ifndef LETHE_CORE_KERNEL_EXP_H_
#define LETHE_CORE_KERNEL_EXP_H_

#include "core/base/double_double.h"

namespace lethe::kernel {

// exp(x) in double-double. Requires |x.hi| <= 709. Relative error at most kExpEpsilon + |x| 2^-103
// where the result is above 2^-960; below, the absolute error is under 2^-1060. The bound is judged
// against MPFR in the tests, which find less than a fourth of it. Cost about 0.25 us.
inline constexpr double kExpEpsilon = 0x1p-100;
DoubleDouble ExpDoubleDouble(DoubleDouble x);

// exp(x) as a double, within 1 ulp (2 below 2^-1022); 0 below -745.2. Requires x.hi <= 709. Cost
// about 10 ns.
double ExpDouble(DoubleDouble x);

}  // namespace lethe::kernel

#endif  // LETHE_CORE_KERNEL_EXP_H_
