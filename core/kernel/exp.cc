#include "core/kernel/exp.h"

#include <cmath>

namespace lethe::kernel {
namespace {

constexpr double kLog2e = 0x1.71547652b82fep+0;
// ln 2 as a sum of three doubles; the first two have so few bits that their products with an
// integer below 2^11 are exact.
constexpr double kLn2High = 0x1.62e42fefa38p-1;
constexpr double kLn2Middle = 0x1.ef35793c76p-45;
constexpr double kLn2Low = 0x1.cc01f97b57a08p-87;

// 1/n!, n = 3 .. 9, rounded to double-double from 400 bits.
constexpr DoubleDouble kInverseFactorial[] = {
    {0x1.5555555555555p-3, 0x1.5555555555555p-57},    // 1/3!
    {0x1.5555555555555p-5, 0x1.5555555555555p-59},    // 1/4!
    {0x1.1111111111111p-7, 0x1.1111111111111p-63},    // 1/5!
    {0x1.6c16c16c16c17p-10, -0x1.f49f49f49f49fp-65},  // 1/6!
    {0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-73},   // 1/7!
    {0x1.a01a01a01a01ap-16, 0x1.a01a01a01a01ap-76},   // 1/8!
    {0x1.71de3a556c734p-19, -0x1.c154f8ddc6c00p-73},  // 1/9!
};
constexpr int kSquarings = 9;

double RoundedMultiple(double x) { return std::nearbyint(x * kLog2e); }

}  // namespace

DoubleDouble ExpDoubleDouble(DoubleDouble x) {
  if (x.hi < -745.2) return {};
  const double k = RoundedMultiple(x.hi);
  DoubleDouble r = x - DoubleDouble(k * kLn2High);
  r = r - DoubleDouble(k * kLn2Middle);
  r = r - TwoProduct(k, kLn2Low);
  // |r| <= 0.3466; after the scaling |r| < 2^-10.5, so that the series below leaves r^10/10! <
  // 2^-126.
  constexpr double kScale = 1.0 / (1 << kSquarings);
  r = {r.hi * kScale, r.lo * kScale};

  // s = exp(r) - 1 = r + r^2/2 + r^3 (1/3! + r (1/4! + ...)).
  DoubleDouble tail = kInverseFactorial[6];
  for (int n = 5; n >= 0; --n) tail = tail * r + kInverseFactorial[n];
  const DoubleDouble square = r * r;
  DoubleDouble s = (tail * r) * square + DoubleDouble(square.hi * 0.5, square.lo * 0.5);
  s = s + r;
  // exp(2r) - 1 = 2s + s^2: keeps the digits that 1 + s would lose.
  for (int i = 0; i < kSquarings; ++i) s = DoubleDouble(s.hi * 2, s.lo * 2) + s * s;
  s = s + DoubleDouble(1.0);
  const int exponent = static_cast<int>(k);
  return {std::ldexp(s.hi, exponent), std::ldexp(s.lo, exponent)};
}

double ExpDouble(DoubleDouble x) {
  if (x.hi < -745.2) return 0.0;
  const double k = RoundedMultiple(x.hi);
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
