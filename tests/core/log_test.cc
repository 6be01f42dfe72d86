// ln of our own against MPFR: y = ln x with an error of about x e^-y - 1.
#include "core/kernel/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "core/base/mp_real.h"

namespace lethe::kernel {
namespace {

double ErrorOfLog(double x) {
  return ToDouble(Abs(MpReal(x) * Exp(-MpReal(LogDoubleDouble(x))) - MpReal(1.0)));
}

TEST(LogTest, StaysWithinTheStatedBound) {
  const PrecisionScope scope(320);
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> unit(-1.0, 1.0);
  double worst = 0.0;
  const auto check = [&worst](double x) {
    const double share = ErrorOfLog(x) / (kLogEpsilon * std::max(1.0, std::abs(std::log(x))));
    worst = std::max(worst, share);
    ASSERT_LE(share, 1.0) << x;
  };
  for (int i = 0; i < 20000; ++i) {
    check(std::exp(700.0 * unit(random)));
    check(std::exp(unit(random)));
    check(1.0 + 1e-8 * unit(random));
  }
  const double limits[] = {std::numeric_limits<double>::denorm_min(),
                           std::numeric_limits<double>::min(), std::numeric_limits<double>::max()};
  for (const double x : limits) check(x);
  // Both sides of every seam: powers of two, and of their halves' square root.
  for (int exponent = -1000; exponent <= 1000; exponent += 125) {
    for (const double seam : {1.0, 0x1.6a09e667f3bcdp-1}) {
      const double x = std::ldexp(seam, exponent);
      for (const double near : {std::nextafter(x, 0.0), x, std::nextafter(x, INFINITY)}) {
        check(near);
      }
    }
  }
  EXPECT_LE(worst, 0.5);
  EXPECT_GT(worst, 0.0);
}

TEST(LogTest, KnowsItsZeroAndPowersOfTwo) {
  EXPECT_EQ(LogDoubleDouble(1.0), DoubleDouble(0.0));
  EXPECT_EQ(LogDoubleDouble(2.0).hi, 0x1.62e42fefa39efp-1);
  EXPECT_EQ(LogDoubleDouble(0.5).hi, -0x1.62e42fefa39efp-1);
}

}  // namespace
}  // namespace lethe::kernel
