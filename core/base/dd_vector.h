// Vectors of double-doubles, high and low parts apart so that packs of them load at once, and the
// two loops that the solver lives in. Cost about a nanosecond a product and sum. Threads: values.
#ifndef LETHE_CORE_BASE_DD_VECTOR_H_
#define LETHE_CORE_BASE_DD_VECTOR_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/base/double_double.h"
#include "core/base/simd.h"

namespace lethe {

class DdVector {
 public:
  size_t size() const { return high_.size(); }
  // New elements are 0; memory once taken is kept.
  void Resize(size_t size) {
    high_.resize(size);
    low_.resize(size);
  }
  // `size` zeros.
  void Zero(size_t size) {
    high_.assign(size, 0.0);
    low_.assign(size, 0.0);
  }
  DoubleDouble operator[](size_t i) const { return {high_[i], low_[i]}; }
  void Set(size_t i, DoubleDouble value) {
    high_[i] = value.hi;
    low_[i] = value.lo;
  }
  const double* high() const { return high_.data(); }
  const double* low() const { return low_.data(); }
  double* high() { return high_.data(); }
  double* low() { return low_.data(); }

 private:
  std::vector<double> high_;
  std::vector<double> low_;
};

// y += a x over n numbers.
inline void AddScaled(DoubleDouble a,
                      const double* x_high,
                      const double* x_low,
                      double* y_high,
                      double* y_low,
                      size_t n) {
  const DoubleDoublePack factor(Splat(a.hi), Splat(a.lo));
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const DoubleDoublePack sum = DoubleDoublePack(Load(y_high + i), Load(y_low + i)) +
                                 factor * DoubleDoublePack(Load(x_high + i), Load(x_low + i));
    Store(sum.hi, y_high + i);
    Store(sum.lo, y_low + i);
  }
  for (; i < n; ++i) {
    const DoubleDouble sum =
        DoubleDouble(y_high[i], y_low[i]) + a * DoubleDouble(x_high[i], x_low[i]);
    y_high[i] = sum.hi;
    y_low[i] = sum.lo;
  }
}

// sum x_i y_i over n numbers. Two running packs hide the latency of the additions.
inline DoubleDouble Dot(const double* x_high,
                        const double* x_low,
                        const double* y_high,
                        const double* y_low,
                        size_t n) {
  DoubleDoublePack sums[2];
  const auto product = [&](size_t i) {
    return DoubleDoublePack(Load(x_high + i), Load(x_low + i)) *
           DoubleDoublePack(Load(y_high + i), Load(y_low + i));
  };
  size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    sums[0] += product(i);
    sums[1] += product(i + kLanes);
  }
  for (; i + kLanes <= n; i += kLanes) sums[0] += product(i);
  sums[0] += sums[1];
  DoubleDouble result;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    result += DoubleDouble(sums[0].hi[lane], sums[0].lo[lane]);
  }
  for (; i < n; ++i) {
    result += DoubleDouble(x_high[i], x_low[i]) * DoubleDouble(y_high[i], y_low[i]);
  }
  return result;
}

}  // namespace lethe

#endif  // LETHE_CORE_BASE_DD_VECTOR_H_
