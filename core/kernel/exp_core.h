// The arithmetic of ExpDoubleDouble for one number or a pack of them (row.cc).
#ifndef LETHE_CORE_KERNEL_EXP_CORE_H_
#define LETHE_CORE_KERNEL_EXP_CORE_H_

#include "core/base/double_double.h"

namespace lethe::kernel {

inline constexpr double kLog2e = 0x1.71547652b82fep+0;
// ln 2 as a sum of three doubles; the first two have so few bits that their products with an
// integer below 2^11 are exact.
inline constexpr double kLn2High = 0x1.62e42fefa38p-1;
inline constexpr double kLn2Middle = 0x1.ef35793c76p-45;
inline constexpr double kLn2Low = 0x1.cc01f97b57a08p-87;

// 1/n!, n = 3 .. 9, rounded to double-double from 400 bits.
inline constexpr DoubleDouble kInverseFactorial[] = {
    {0x1.5555555555555p-3, 0x1.5555555555555p-57},    // 1/3!
    {0x1.5555555555555p-5, 0x1.5555555555555p-59},    // 1/4!
    {0x1.1111111111111p-7, 0x1.1111111111111p-63},    // 1/5!
    {0x1.6c16c16c16c17p-10, -0x1.f49f49f49f49fp-65},  // 1/6!
    {0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-73},   // 1/7!
    {0x1.a01a01a01a01ap-16, 0x1.a01a01a01a01ap-76},   // 1/8!
    {0x1.71de3a556c734p-19, -0x1.c154f8ddc6c00p-73},  // 1/9!
};
inline constexpr int kSquarings = 9;

// k + kRoundingShift for the integer k nearest to x / ln 2.
template <typename T>
T ShiftedMultiple(T x) {
  return x * Broadcast<T>(kLog2e) + Broadcast<T>(kRoundingShift);
}

// exp(x) = result 2^k, where shifted = k + kRoundingShift. Requires |x.hi| < 2^40.
template <typename T>
BasicDoubleDouble<T> ExpReduced(BasicDoubleDouble<T> x, T& shifted) {
  using Number = BasicDoubleDouble<T>;
  const auto constant = [](DoubleDouble value) {
    return Number(Broadcast<T>(value.hi), Broadcast<T>(value.lo));
  };
  shifted = ShiftedMultiple(x.hi);
  const T k = shifted - Broadcast<T>(kRoundingShift);
  Number r = x - Number(k * Broadcast<T>(kLn2High));
  r = r - Number(k * Broadcast<T>(kLn2Middle));
  r = r - Number::TwoProduct(k, Broadcast<T>(kLn2Low));
  // |r| <= 0.3466; after the scaling |r| < 2^-10.5, so that the series below leaves r^10/10! <
  // 2^-126.
  const T scale = Broadcast<T>(1.0 / (1 << kSquarings));
  r = {r.hi * scale, r.lo * scale};

  // s = exp(r) - 1 = r + r^2/2 + r^3 (1/3! + r (1/4! + ...)).
  Number tail = constant(kInverseFactorial[6]);
  for (int n = 5; n >= 0; --n) tail = tail * r + constant(kInverseFactorial[n]);
  const Number square = r * r;
  const T half = Broadcast<T>(0.5);
  Number s = (tail * r) * square + Number(square.hi * half, square.lo * half);
  s = s + r;
  // exp(2r) - 1 = 2s + s^2: keeps the digits that 1 + s would lose.
  for (int i = 0; i < kSquarings; ++i) s = Number(s.hi + s.hi, s.lo + s.lo) + s * s;
  return s + constant(DoubleDouble(1.0));
}

}  // namespace lethe::kernel

#endif  // LETHE_CORE_KERNEL_EXP_CORE_H_
