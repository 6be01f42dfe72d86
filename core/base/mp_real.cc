#include "core/base/mp_real.h"

#include <string>
#include <string_view>

#include "core/base/check.h"

namespace lethe {
namespace {

thread_local int current_bits = 320;

}  // namespace

PrecisionScope::PrecisionScope(int bits) : previous_(current_bits) { current_bits = bits; }
PrecisionScope::~PrecisionScope() { current_bits = previous_; }
int PrecisionScope::bits() { return current_bits; }

MpReal::MpReal() {
  mpfr_init2(v_, current_bits);
  mpfr_set_zero(v_, 1);
}
MpReal::MpReal(double value) {
  mpfr_init2(v_, current_bits);
  mpfr_set_d(v_, value, MPFR_RNDN);
}
MpReal::MpReal(DoubleDouble value) {
  mpfr_init2(v_, current_bits);
  mpfr_set_d(v_, value.hi, MPFR_RNDN);
  mpfr_add_d(v_, v_, value.lo, MPFR_RNDN);
}
MpReal::MpReal(const MpReal& other) {
  mpfr_init2(v_, mpfr_get_prec(other.v_));
  mpfr_set(v_, other.v_, MPFR_RNDN);
}
MpReal::MpReal(MpReal&& other) noexcept {
  mpfr_init2(v_, MPFR_PREC_MIN);
  mpfr_swap(v_, other.v_);
}
MpReal& MpReal::operator=(const MpReal& other) {
  if (this != &other) {
    mpfr_set_prec(v_, mpfr_get_prec(other.v_));
    mpfr_set(v_, other.v_, MPFR_RNDN);
  }
  return *this;
}
MpReal& MpReal::operator=(MpReal&& other) noexcept {
  mpfr_swap(v_, other.v_);
  return *this;
}
MpReal::~MpReal() { mpfr_clear(v_); }

MpReal operator-(const MpReal& a) {
  MpReal result;
  mpfr_neg(result.v_, a.v_, MPFR_RNDN);
  return result;
}
MpReal operator+(const MpReal& a, const MpReal& b) {
  MpReal result;
  mpfr_add(result.v_, a.v_, b.v_, MPFR_RNDN);
  return result;
}
MpReal operator-(const MpReal& a, const MpReal& b) {
  MpReal result;
  mpfr_sub(result.v_, a.v_, b.v_, MPFR_RNDN);
  return result;
}
MpReal operator*(const MpReal& a, const MpReal& b) {
  MpReal result;
  mpfr_mul(result.v_, a.v_, b.v_, MPFR_RNDN);
  return result;
}
MpReal operator/(const MpReal& a, const MpReal& b) {
  MpReal result;
  mpfr_div(result.v_, a.v_, b.v_, MPFR_RNDN);
  return result;
}
MpReal& MpReal::operator+=(const MpReal& other) {
  mpfr_add(v_, v_, other.v_, MPFR_RNDN);
  return *this;
}
MpReal& MpReal::operator-=(const MpReal& other) {
  mpfr_sub(v_, v_, other.v_, MPFR_RNDN);
  return *this;
}

MpReal Sqrt(const MpReal& a) {
  MpReal result;
  mpfr_sqrt(result.v_, a.v_, MPFR_RNDN);
  return result;
}
MpReal Exp(const MpReal& a) {
  MpReal result;
  mpfr_exp(result.v_, a.v_, MPFR_RNDN);
  return result;
}
MpReal Abs(const MpReal& a) {
  MpReal result;
  mpfr_abs(result.v_, a.v_, MPFR_RNDN);
  return result;
}
DoubleDouble ToDoubleDouble(const MpReal& a) {
  const double high = ToDouble(a);
  MpReal rest;
  mpfr_sub_d(rest.v_, a.v_, high, MPFR_RNDN);
  return QuickTwoSum(high, ToDouble(rest));
}
MpReal RoundToDecimal(const MpReal& a, int digits) {
  LETHE_CHECK(mpfr_regular_p(a.v_) != 0);
  mpfr_exp_t exponent = 0;
  char* const text =
      mpfr_get_str(nullptr, &exponent, 10, static_cast<size_t>(digits), a.v_, MPFR_RNDN);
  LETHE_CHECK(text != nullptr);
  // text holds the digits of a fraction: value = 0.DIGITS x 10^exponent.
  const std::string_view all(text);
  const size_t sign = all.starts_with('-') ? 1 : 0;
  std::string number(all.substr(0, sign));
  number.append("0.").append(all.substr(sign)).append("e").append(std::to_string(exponent));
  mpfr_free_str(text);
  MpReal result;
  LETHE_CHECK(mpfr_set_str(result.v_, number.c_str(), 10, MPFR_RNDN) == 0);
  return result;
}
long Exponent(const MpReal& a) {
  LETHE_CHECK(mpfr_regular_p(a.v_) != 0);
  return mpfr_get_exp(a.v_);
}
void SubtractProduct(MpReal& accumulator, const MpReal& a, const MpReal& b) {
  mpfr_fms(accumulator.v_, a.v_, b.v_, accumulator.v_, MPFR_RNDN);
  mpfr_neg(accumulator.v_, accumulator.v_, MPFR_RNDN);
}
MpReal MpReal::PowerOfTwo(long exponent) {
  MpReal result(1.0);
  mpfr_mul_2si(result.v_, result.v_, exponent, MPFR_RNDN);
  return result;
}

}  // namespace lethe
