// The nearest point of the constraints.
//
//     x = argmin |x - v|^2  s.t.  sum x = 1, 0 <= x <= C          x_i = min(max(v_i - t, 0), C)
//
// The multiplier t is the root of sum_i min(max(v_i - t, 0), C) - 1, which falls and is linear
// between breakpoints: Newton's method, kept inside a bracket, ends at the root of the piece that
// it is in; 1.3 to 1.9 evaluations from the t of the step before.
#ifndef LETHE_CORE_BATCHED_CPU_PROJECTION_H_
#define LETHE_CORE_BATCHED_CPU_PROJECTION_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "core/batched/cpu/packs.h"

namespace lethe::batched {

// Stands in the padding of v: x is 0 there.
template <typename T>
inline constexpr T kFarBelow = -std::numeric_limits<T>::max() / 8;

// Requires finite v (n entries, padding kFarBelow up to `rows`), n C > 1, `guess` finite. Returns
// t. Where rounding leaves the sum off 1, it is by a few roundings.
template <typename T>
inline T ProjectionThreshold(const T* v, size_t rows, size_t n, T box, T guess) {
  constexpr size_t kW = kPack<T>;
  constexpr T kEpsilon = std::numeric_limits<T>::epsilon();
  const PackOf<T> zero = {};
  const PackOf<T> upper = SplatOf<T>(box);
  T low = -std::numeric_limits<T>::infinity();
  T high = std::numeric_limits<T>::infinity();
  bool bracketed = false;
  T t = guess;
  for (int step = 0; step < 200; ++step) {
    const PackOf<T> shift = SplatOf<T>(t);
    PackOf<T> sums = {};
    BitsOf<T> inside = {};
    for (size_t i = 0; i < rows; i += kW) {
      const PackOf<T> moved = LoadPack(v + i) - shift;
      sums += Smaller(Larger(moved, zero), upper);
      inside -= (moved > zero) & (moved < upper);
    }
    const T excess = SumOf<T>(sums) - T{1};
    auto free = inside[0];
    for (size_t lane = 1; lane < kW; ++lane) free += inside[lane];
    if (excess > 0) {
      low = t;
    } else {
      high = t;
    }
    if (excess == 0) break;
    T next = t;
    if (free > 0) next = t + excess / static_cast<T>(free);
    if (free > 0 && next > low && next < high) {
      // On a piece the step is exact; what remains is rounding.
      if (std::abs(excess) <= 4 * kEpsilon) return next;
    } else {
      if (!bracketed) {
        // All weights at C at the one end, all 0 at the other.
        bracketed = true;
        const auto [least, most] = std::minmax_element(v, v + n);
        low = std::max(low, *least - box);
        high = std::min(high, *most);
      }
      next = low + (high - low) / 2;
      if (!(next > low && next < high)) break;  // neighbours
    }
    t = next;
  }
  return t;
}

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CPU_PROJECTION_H_
