// Double-double arithmetic: an unevaluated sum hi + lo of two doubles, |lo| <= ulp(hi) / 2, which
// carries 106 bits.
//
// Every operation below has relative error at most kDoubleDoubleEpsilon = 2^-102 as long as nothing
// overflows or underflows; the bounds of the individual operations (Joldes, Muller, Popescu: Tight
// and rigorous error bounds for basic building blocks of double-word arithmetic, 2017) are between
// 2^-104.4 and 2^-102.1. They hold in round-to-nearest with contraction off and a correct std::fma;
// hence the same bits on every machine. Cost: 6 to 40 floating-point operations. Threads: values.
#ifndef LETHE_CORE_BASE_DOUBLE_DOUBLE_H_
#define LETHE_CORE_BASE_DOUBLE_DOUBLE_H_

#include <cmath>

namespace lethe {

inline constexpr double kDoubleDoubleEpsilon = 0x1p-102;

struct DoubleDouble {
  double hi = 0.0;
  double lo = 0.0;

  constexpr DoubleDouble() = default;
  constexpr DoubleDouble(double value) : hi(value) {}  // NOLINT(google-explicit-constructor): exact
  constexpr DoubleDouble(double high, double low) : hi(high), lo(low) {}
};

// a + b exactly. Requires |a| >= |b| or a == 0.
inline DoubleDouble QuickTwoSum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

// a + b exactly.
inline DoubleDouble TwoSum(double a, double b) {
  const double sum = a + b;
  const double part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}

// a b exactly.
inline DoubleDouble TwoProduct(double a, double b) {
  const double product = a * b;
  return {product, std::fma(a, b, -product)};
}

inline DoubleDouble operator-(DoubleDouble a) { return {-a.hi, -a.lo}; }

inline DoubleDouble operator+(DoubleDouble a, DoubleDouble b) {
  DoubleDouble high = TwoSum(a.hi, b.hi);
  const DoubleDouble low = TwoSum(a.lo, b.lo);
  high = QuickTwoSum(high.hi, high.lo + low.hi);
  return QuickTwoSum(high.hi, high.lo + low.lo);
}

inline DoubleDouble operator-(DoubleDouble a, DoubleDouble b) { return a + (-b); }

inline DoubleDouble operator*(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble product = TwoProduct(a.hi, b.hi);
  const double cross = std::fma(a.lo, b.hi, std::fma(a.hi, b.lo, a.lo * b.lo));
  return QuickTwoSum(product.hi, product.lo + cross);
}

inline DoubleDouble operator/(DoubleDouble a, DoubleDouble b) {
  const double first = a.hi / b.hi;
  DoubleDouble rest = a - b * DoubleDouble(first);
  const double second = rest.hi / b.hi;
  rest = rest - b * DoubleDouble(second);
  const double third = rest.hi / b.hi;
  return QuickTwoSum(first, second) + DoubleDouble(third);
}

inline DoubleDouble& operator+=(DoubleDouble& a, DoubleDouble b) { return a = a + b; }
inline DoubleDouble& operator-=(DoubleDouble& a, DoubleDouble b) { return a = a - b; }

inline bool operator==(DoubleDouble a, DoubleDouble b) { return a.hi == b.hi && a.lo == b.lo; }
inline bool operator<(DoubleDouble a, DoubleDouble b) {
  return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo);
}
inline bool operator>(DoubleDouble a, DoubleDouble b) { return b < a; }
inline bool operator<=(DoubleDouble a, DoubleDouble b) { return !(b < a); }
inline bool operator>=(DoubleDouble a, DoubleDouble b) { return !(a < b); }

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
