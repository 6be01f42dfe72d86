// A real number of a few hundred to a few thousand bits: MPFR with value semantics, for the upper
// rungs of the precision ladder.
//
// The precision of a result is that of the innermost PrecisionScope of the thread at the time the
// number is made. Every operation, exp included, is correctly rounded by MPFR: relative error at
// most 2^-precision, in an exponent range (2^30) that never overflows here; what underflows (exp
// below -7 10^8) is absolutely smaller than any bound. Threads: values; the precision is per
// thread.
#ifndef LETHE_CORE_BASE_MP_REAL_H_
#define LETHE_CORE_BASE_MP_REAL_H_

#include <mpfr.h>

#include "core/base/double_double.h"

namespace lethe {

class PrecisionScope {
 public:
  explicit PrecisionScope(int bits);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;
  static int bits();

 private:
  int previous_;
};

class MpReal {
 public:
  MpReal();
  MpReal(double value);        // NOLINT(google-explicit-constructor): exact
  MpReal(DoubleDouble value);  // NOLINT(google-explicit-constructor): exact from 107 bits on
  MpReal(const MpReal& other);
  MpReal(MpReal&& other) noexcept;
  MpReal& operator=(const MpReal& other);
  MpReal& operator=(MpReal&& other) noexcept;
  ~MpReal();

  friend MpReal operator-(const MpReal& a);
  friend MpReal operator+(const MpReal& a, const MpReal& b);
  friend MpReal operator-(const MpReal& a, const MpReal& b);
  friend MpReal operator*(const MpReal& a, const MpReal& b);
  friend MpReal operator/(const MpReal& a, const MpReal& b);
  MpReal& operator+=(const MpReal& other);
  MpReal& operator-=(const MpReal& other);

  friend bool operator<(const MpReal& a, const MpReal& b) { return mpfr_less_p(a.v_, b.v_) != 0; }
  friend bool operator>(const MpReal& a, const MpReal& b) { return b < a; }
  friend bool operator<=(const MpReal& a, const MpReal& b) { return !(b < a); }
  friend bool operator>=(const MpReal& a, const MpReal& b) { return !(a < b); }
  friend bool operator==(const MpReal& a, const MpReal& b) { return mpfr_equal_p(a.v_, b.v_) != 0; }

  friend MpReal Sqrt(const MpReal& a);
  friend MpReal Exp(const MpReal& a);
  friend MpReal Abs(const MpReal& a);
  // Rounded to nearest, ties to even, subnormals included.
  friend double ToDouble(const MpReal& a) { return mpfr_get_d(a.v_, MPFR_RNDN); }
  // The double-double nearest to a.
  friend DoubleDouble ToDoubleDouble(const MpReal& a);
  // The number of `digits` significant decimal digits nearest to a, read back at the current
  // precision.
  friend MpReal RoundToDecimal(const MpReal& a, int digits);
  // e with 2^(e-1) <= |a| < 2^e. Requires a != 0.
  friend long Exponent(const MpReal& a);
  // accumulator -= a b, with one rounding.
  friend void SubtractProduct(MpReal& accumulator, const MpReal& a, const MpReal& b);
  // 2^exponent.
  static MpReal PowerOfTwo(long exponent);

 private:
  mpfr_t v_;
};

MpReal Sqrt(const MpReal& a);
MpReal Exp(const MpReal& a);
MpReal Abs(const MpReal& a);
DoubleDouble ToDoubleDouble(const MpReal& a);
MpReal RoundToDecimal(const MpReal& a, int digits);
long Exponent(const MpReal& a);
void SubtractProduct(MpReal& accumulator, const MpReal& a, const MpReal& b);

}  // namespace lethe

#endif  // LETHE_CORE_BASE_MP_REAL_H_
