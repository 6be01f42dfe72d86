#include "core/kernel/row.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/simd.h"
#include "core/kernel/exp.h"
#include "core/kernel/exp_core.h"

namespace lethe::kernel {
namespace {

constexpr double kUnit = 0x1p-53;
// Below it a row's values are taken for 0. Every power of two above fits a double.
constexpr double kLeastExponent = -700.0;
constexpr double kLeastValue = 0x1p-1009;  // above e^-700
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr size_t kPacks = PointBlocks::kWidth / kLanes;

// 1/n!, n = 13 .. 2: the remainder of the series is below 2^-57 on |r| <= 0.3466.
constexpr double kSeries[] = {1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0,
                              1.0 / 3628800.0,    1.0 / 362880.0,    1.0 / 40320.0,
                              1.0 / 5040.0,       1.0 / 720.0,       1.0 / 120.0,
                              1.0 / 24.0,         1.0 / 6.0,         0.5};

// exp of x, for x in [kLeastExponent, 709]; 0 below. Relative error within 4 ulp and half a
// rounding of x, which is what ln 2 in one double costs.
inline void ExpPacks(Pack (&x)[kPacks]) {
  const Pack least = Splat(kLeastExponent);
  Pack shifted[kPacks];
  Pack r[kPacks];
  Pack p[kPacks];
  for (size_t i = 0; i < kPacks; ++i) {
    const Pack bounded = WhereAtLeast(x[i], least, x[i]);
    shifted[i] = ShiftedMultiple(bounded);
    const Pack k = shifted[i] - Splat(kRoundingShift);
    r[i] = Fma(k, Splat(-kLn2), bounded);
    p[i] = Splat(kSeries[0]);
  }
  for (size_t term = 1; term < std::size(kSeries); ++term) {
    const Pack coefficient = Splat(kSeries[term]);
    for (size_t i = 0; i < kPacks; ++i) p[i] = Fma(p[i], r[i], coefficient);
  }
  for (size_t i = 0; i < kPacks; ++i) {
    const Pack value = Fma(Fma(p[i], r[i], Splat(1.0)), r[i], Splat(1.0)) * PowerOfTwo(shifted[i]);
    x[i] = WhereAtLeast(x[i], least, value);
  }
}

template <KernelKind kind>
void RowOf(double parameter,
           std::span<const double> x,
           const PointBlocks& points,
           size_t first,
           size_t last,
           double* row) {
  const Pack scale = Splat(kind == KernelKind::kExpDot ? parameter : -parameter);
  const size_t d = x.size();
  for (size_t block = first; block < last; ++block, row += PointBlocks::kWidth) {
    const double* y = points.Block(block);
    Pack sum[kPacks] = {};
    for (size_t k = 0; k < d; ++k) {
      const Pack own = Splat(x[k]);
      for (size_t i = 0; i < kPacks; ++i) {
        const Pack other = Load(y + k * PointBlocks::kWidth + i * kLanes);
        if constexpr (kind == KernelKind::kExpDot) {
          sum[i] = Fma(own, other, sum[i]);
        } else {
          const Pack difference = own - other;
          sum[i] = Fma(difference, difference, sum[i]);
        }
      }
    }
    for (Pack& value : sum) {
      if constexpr (kind == KernelKind::kLaplacian) value = SquareRoots(value);
      value = value * scale;
    }
    ExpPacks(sum);
    for (size_t i = 0; i < kPacks; ++i) Store(sum[i], row + i * kLanes);
  }
}

}  // namespace

void PointBlocks::Set(size_t index, std::span<const double> point) {
  LETHE_CHECK(point.size() == dimension_);
  if (index >= size_) {
    size_ = (index / kWidth + 1) * kWidth;
    data_.resize(size_ * dimension_);
  }
  double* block = data_.data() + index / kWidth * kWidth * dimension_ + index % kWidth;
  for (size_t k = 0; k < dimension_; ++k) block[k * kWidth] = point[k];
}

void RowOfBlocks(const Kernel& kernel,
                 std::span<const double> x,
                 const PointBlocks& points,
                 size_t first,
                 size_t last,
                 double* row) {
  LETHE_CHECK(x.size() == points.dimension() && last * PointBlocks::kWidth <= points.size());
  switch (kernel.kind) {
    case KernelKind::kRbf:
      return RowOf<KernelKind::kRbf>(kernel.parameter, x, points, first, last, row);
    case KernelKind::kLaplacian:
      return RowOf<KernelKind::kLaplacian>(kernel.parameter, x, points, first, last, row);
    case KernelKind::kExpDot:
      return RowOf<KernelKind::kExpDot>(kernel.parameter, x, points, first, last, row);
  }
}

void Row(const Kernel& kernel, std::span<const double> x, const PointBlocks& points, double* row) {
  RowOfBlocks(kernel, x, points, 0, points.size() / PointBlocks::kWidth, row);
}

RowErrorBound RowError(const Kernel& kernel, size_t dimension, double square, double largest) {
  const double d = static_cast<double>(dimension);
  // The exponent t is off by at most (d + 6) roundings of itself, exp by 8 more of the value.
  if (kernel.kind == KernelKind::kExpDot) {
    return {1.02 * kUnit * ((d + 4) * std::sqrt(square * largest) + 10), kLeastValue};
  }
  // t e^-t <= 1/e < 0.37
  return {1.02 * kUnit * 10, 1.02 * kUnit * 0.37 * (d + 6) + kLeastValue};
}

void RowDoubleDouble(const Kernel& kernel,
                     std::span<const double> x,
                     const PointBlocks& points,
                     double* high,
                     double* low,
                     double* error) {
  LETHE_CHECK(x.size() == points.dimension());
  const size_t d = x.size();
  const Pack least = Splat(kLeastExponent);
  const double terms = static_cast<double>(d + 9) * kDoubleDoubleEpsilon * 1.01;
  for (size_t at = 0; at < points.size(); at += kLanes) {
    const double* y = points.Block(at / PointBlocks::kWidth) + at % PointBlocks::kWidth;
    DoubleDoublePack sum;
    Pack magnitude = {};
    for (size_t k = 0; k < d; ++k) {
      const Pack own = Splat(x[k]);
      const Pack other = Load(y + k * PointBlocks::kWidth);
      if (kernel.kind == KernelKind::kExpDot) {
        const DoubleDoublePack product = DoubleDoublePack::TwoProduct(own, other);
        sum += product;
        magnitude += product.hi >= Splat(0.0) ? product.hi : -product.hi;
      } else {
        const DoubleDoublePack difference = DoubleDoublePack::TwoSum(own, -other);
        sum += difference * difference;
      }
    }
    if (kernel.kind == KernelKind::kLaplacian) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const DoubleDouble root = Sqrt(DoubleDouble(sum.hi[lane], sum.lo[lane]));
        sum.hi[lane] = root.hi;
        sum.lo[lane] = root.lo;
      }
    }
    const double scale = kernel.kind == KernelKind::kExpDot ? kernel.parameter : -kernel.parameter;
    const DoubleDoublePack t = sum * DoubleDoublePack(Splat(scale));
    const Pack bounded = WhereAtLeast(t.hi, least, t.hi);
    Pack shifted;
    const DoubleDoublePack s =
        ExpReduced(DoubleDoublePack(bounded, WhereAtLeast(t.hi, least, t.lo)), shifted);
    const Pack power = PowerOfTwo(shifted);
    const Pack value = WhereAtLeast(t.hi, least, s.hi * power);
    Store(value, high + at);
    Store(WhereAtLeast(t.hi, least, s.lo * power), low + at);
    magnitude = kernel.kind == KernelKind::kExpDot ? magnitude * Splat(kernel.parameter) : -t.hi;
    // As EvaluateDoubleDouble's, with the values below e^-700 taken for 0.
    magnitude = WhereAtLeast(t.hi, least, magnitude);
    Store(value * (magnitude * Splat(terms) + Splat(1.01 * kExpEpsilon + kExponentUnderflow)) +
              Splat(kLeastValue),
          error + at);
  }
}

}  // namespace lethe::kernel
