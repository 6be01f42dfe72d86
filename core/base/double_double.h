// Double-double arithmetic: an unevaluated sum hi + lo of two doubles, |lo| <= ulp(hi) / 2, which
// carries 106 bits.
//
// Every operation below has relative error at most kDoubleDoubleEpsilon = 2^-102 as long as nothing
// overflows or underflows; the bounds of the individual operations (Joldes, Muller, Popescu: Tight
// and rigorous error bounds for basic building blocks of double-word arithmetic, 2017) are between
// 2^-104.4 and 2^-102.1. They hold in round-to-nearest with contraction off and a correct std::fma;
// hence the same bits on every machine, a number at a time or a pack. Cost: 6 to 40 floating-point
// operations. Threads: values.
#ifndef LETHE_CORE_BASE_DOUBLE_DOUBLE_H_
#define LETHE_CORE_BASE_DOUBLE_DOUBLE_H_

#include <cmath>

#include "core/base/simd.h"

namespace lethe {

inline constexpr double kDoubleDoubleEpsilon = 0x1p-102;

template <typename T>
struct BasicDoubleDouble {
  T hi{};
  T lo{};

  constexpr BasicDoubleDouble() = default;
  constexpr BasicDoubleDouble(T value) : hi(value) {}  // NOLINT(google-explicit-constructor): exact
  constexpr BasicDoubleDouble(T high, T low) : hi(high), lo(low) {}

  // a + b exactly. Requires |a| >= |b| or a == 0.
  static BasicDoubleDouble QuickTwoSum(T a, T b) {
    const T sum = a + b;
    return {sum, b - (sum - a)};
  }
  // a + b exactly.
  static BasicDoubleDouble TwoSum(T a, T b) {
    const T sum = a + b;
    const T part = sum - a;
    return {sum, (a - (sum - part)) + (b - part)};
  }
  // a b exactly.
  static BasicDoubleDouble TwoProduct(T a, T b) {
    const T product = a * b;
    return {product, Fma(a, b, -product)};
  }

  friend BasicDoubleDouble operator-(BasicDoubleDouble a) { return {-a.hi, -a.lo}; }
  friend BasicDoubleDouble operator+(BasicDoubleDouble a, BasicDoubleDouble b) {
    BasicDoubleDouble high = TwoSum(a.hi, b.hi);
    const BasicDoubleDouble low = TwoSum(a.lo, b.lo);
    high = QuickTwoSum(high.hi, high.lo + low.hi);
    return QuickTwoSum(high.hi, high.lo + low.lo);
  }
  friend BasicDoubleDouble operator-(BasicDoubleDouble a, BasicDoubleDouble b) { return a + (-b); }
  friend BasicDoubleDouble operator*(BasicDoubleDouble a, BasicDoubleDouble b) {
    const BasicDoubleDouble product = TwoProduct(a.hi, b.hi);
    const T cross = Fma(a.lo, b.hi, Fma(a.hi, b.lo, a.lo * b.lo));
    return QuickTwoSum(product.hi, product.lo + cross);
  }
  friend BasicDoubleDouble operator/(BasicDoubleDouble a, BasicDoubleDouble b) {
    const T first = a.hi / b.hi;
    BasicDoubleDouble rest = a - b * BasicDoubleDouble(first);
    const T second = rest.hi / b.hi;
    rest = rest - b * BasicDoubleDouble(second);
    const T third = rest.hi / b.hi;
    return QuickTwoSum(first, second) + BasicDoubleDouble(third);
  }
  friend BasicDoubleDouble& operator+=(BasicDoubleDouble& a, BasicDoubleDouble b) {
    return a = a + b;
  }
  friend BasicDoubleDouble& operator-=(BasicDoubleDouble& a, BasicDoubleDouble b) {
    return a = a - b;
  }

  friend bool operator==(BasicDoubleDouble a, BasicDoubleDouble b) {
    return a.hi == b.hi && a.lo == b.lo;
  }
  friend bool operator<(BasicDoubleDouble a, BasicDoubleDouble b) {
    return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo);
  }
  friend bool operator>(BasicDoubleDouble a, BasicDoubleDouble b) { return b < a; }
  friend bool operator<=(BasicDoubleDouble a, BasicDoubleDouble b) { return !(b < a); }
  friend bool operator>=(BasicDoubleDouble a, BasicDoubleDouble b) { return !(a < b); }
};

using DoubleDouble = BasicDoubleDouble<double>;
// One a lane. Comparisons are for DoubleDouble alone.
using DoubleDoublePack = BasicDoubleDouble<Pack>;

inline DoubleDouble QuickTwoSum(double a, double b) { return DoubleDouble::QuickTwoSum(a, b); }
inline DoubleDouble TwoSum(double a, double b) { return DoubleDouble::TwoSum(a, b); }
inline DoubleDouble TwoProduct(double a, double b) { return DoubleDouble::TwoProduct(a, b); }

// Square root. Requires a >= 0.
inline DoubleDouble Sqrt(DoubleDouble a) {
  if (a.hi <= 0.0) return {};
  const double root = std::sqrt(a.hi);
  // One Newton step from a root good to 53 bits: root + (a - root^2) / (2 root), twice for the
  // bound.
  const DoubleDouble first =
      DoubleDouble(root) + (a - TwoProduct(root, root)) / DoubleDouble(2 * root);
  return first + (a - first * first) / DoubleDouble(2 * root);
}

inline DoubleDouble Abs(DoubleDouble a) {
  return a.hi < 0.0 || (a.hi == 0.0 && a.lo < 0.0) ? -a : a;
}
inline double ToDouble(DoubleDouble a) { return a.hi; }

// accumulator -= a b
inline void SubtractProduct(DoubleDouble& accumulator, DoubleDouble a, DoubleDouble b) {
  accumulator -= a * b;
}

}  // namespace lethe

#endif  // LETHE_CORE_BASE_DOUBLE_DOUBLE_H_
