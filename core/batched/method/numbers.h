// The method of batched problems, once for all backends: a backend supplies loops over the points
// of a problem ("steps"), this folder says which loops follow which, and what counts as 0, as
// solved and as worse. fista.h and polish.h find a solution, adjoint.h its derivatives.
//
// The functions here also run on devices, each lane of a block with the same numbers.
#ifndef LETHE_CORE_BATCHED_METHOD_NUMBERS_H_
#define LETHE_CORE_BATCHED_METHOD_NUMBERS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/batched/problem.h"

// LETHE_STEP: small, or with numbers that must stay in registers. LETHE_PART: large, or called from
// many places; a device calls it, or its code would be many times as long.
#if defined(__CUDACC__)
#define LETHE_STEP __device__ __forceinline__
#define LETHE_PART __device__ __noinline__
#define LETHE_UNROLLED _Pragma("unroll")
#else
#define LETHE_STEP inline
#define LETHE_PART inline
#define LETHE_UNROLLED
#endif

namespace lethe::batched {

// One problem, and what is known of its solution, but for what there is a point.
template <typename T>
struct Numbers {
  size_t n = 0;
  T box = 0, ridge = 0, parameter = 0;
  T scale = 0;    // max |K_ij|
  T row_sum = 0;  // max_i sum_j |K_ij|

  size_t margin = 0;  // |S|
  T mu = 0;           // the threshold; where S is empty, the one that `gap` was found with
  T mu_low = 0, mu_high = 0;
  T gap = 0;
  int32_t iterations = 0;
  int32_t rounds = 0;

  // Gradients nearer to 0 than this are 0.
  LETHE_STEP T sign_tolerance() const {
    return 16 * std::numeric_limits<T>::epsilon() * (scale + ridge);
  }
  // The least pivot of 2 K_SS + rho I that counts as positive.
  LETHE_STEP T least_pivot() const {
    return 4 * std::numeric_limits<T>::epsilon() * (scale + ridge);
  }
};

// A sum of weights is 1 within this.
template <typename T>
inline constexpr T kMass = 256 * std::numeric_limits<T>::epsilon();

// Sums and squares of this are still finite.
template <typename T>
inline constexpr T kLargestEntry = sizeof(T) == 8 ? T(0x1p400) : T(0x1p40);
// exp of less is taken for 0: subnormal numbers would slow every product.
template <typename T>
inline constexpr T kLeastExponent = sizeof(T) == 8 ? T(-700) : T(-80);
template <typename T>
inline constexpr T kMostExponent = sizeof(T) == 8 ? T(277)
                                                  : T(27.7);  // exp of it is below kLargestEntry
// |K_ij - K_ji| in units of the largest entry that counts as symmetric.
template <typename T>
inline constexpr T kSymmetric = 16 * std::numeric_limits<T>::epsilon();

// What fp arithmetic leaves of a gap that is 0, in the units of K.
template <typename T>
LETHE_STEP T GapTolerance(const Options& options, const Numbers<T>& numbers) {
  const T relative = options.tolerance > 0         ? static_cast<T>(options.tolerance)
                     : sizeof(T) == sizeof(double) ? T(0x1p-30)
                                                   : T(0x1p-16);
  return relative * (numbers.scale + numbers.ridge) *
         std::max(T{1}, numbers.box * static_cast<T>(numbers.n) / 4);
}

// kUnsolved, or what is wrong with box and ridge.
template <typename T>
LETHE_STEP Outcome CheckNumbers(const Numbers<T>& numbers) {
  const T box = numbers.box;
  const T ridge = numbers.ridge;
  if (!std::isfinite(box) || !std::isfinite(ridge)) return Outcome::kNotFinite;
  if (!(box > 0) || box > 1) return Outcome::kBadBox;
  const T mass = box * static_cast<T>(numbers.n);
  if (!(mass > 1 + 4 * std::numeric_limits<T>::epsilon())) return Outcome::kBoxTooSmall;
  if (ridge < 0) return Outcome::kBadRidge;
  if (!(ridge <= kLargestEntry<T>)) return Outcome::kNotFinite;
  return Outcome::kUnsolved;
}

// The same of the kernel's parameter.
template <typename T>
LETHE_STEP Outcome CheckParameter(T parameter) {
  if (!std::isfinite(parameter)) return Outcome::kNotFinite;
  return parameter > 0 ? Outcome::kUnsolved : Outcome::kBadParameter;
}

template <typename T>
LETHE_STEP Label LabelOfWeight(T weight, T box) {
  return weight <= 0 ? Label::kReserve : weight >= box ? Label::kError : Label::kMargin;
}

// Whether a point violates (8) at the solution on the labels.
template <typename T>
LETHE_STEP bool Violates(Label label, T weight, T gradient, T box, T tolerance) {
  // One of three answers by the label, without a branch: labels have no order that a processor
  // guesses.
  static_assert(static_cast<int>(Label::kReserve) == 0 && static_cast<int>(Label::kMargin) == 1 &&
                static_cast<int>(Label::kError) == 2);
  const unsigned reserve = gradient < -tolerance ? 1U : 0U;
  const unsigned margin = weight >= 0 ? (weight <= box ? 0U : 2U) : 2U;
  const unsigned error = gradient > tolerance ? 4U : 0U;
  return ((reserve | margin | error) >> static_cast<unsigned>(label) & 1U) != 0;
}

// The label of a violating point afterwards: to the bound that it passed, or into the margin.
template <typename T>
LETHE_STEP Label Flipped(Label label, T weight) {
  if (label != Label::kMargin) return Label::kMargin;
  return weight > 0 ? Label::kError : Label::kReserve;
}

// Its share of the gap, a max(g, 0) + (C - a) max(-g, 0).
template <typename T>
LETHE_STEP T GapOf(T weight, T gradient, T box) {
  return gradient > 0 ? weight * gradient : (weight - box) * gradient;
}

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_METHOD_NUMBERS_H_
