// The search for the nearest point of the constraints over packs.
#ifndef LETHE_CORE_BATCHED_CPU_PROJECTION_H_
#define LETHE_CORE_BATCHED_CPU_PROJECTION_H_

#include <algorithm>
#include <cstddef>
#include <limits>

#include "core/batched/cpu/packs.h"
#include "core/batched/method/projection_search.h"

namespace lethe::batched {

// Stands in the padding of v: x is 0 there.
template <typename T>
inline constexpr T kFarBelow = -std::numeric_limits<T>::max() / 8;

// Requires finite v (n entries, padding kFarBelow up to `rows`), n C > 1, `guess` finite. Returns
// the multiplier.
template <typename T>
inline T ProjectionThreshold(const T* v, size_t rows, size_t n, T box, T guess) {
  constexpr size_t kW = kPack<T>;
  const PackOf<T> zero = {};
  const PackOf<T> upper = SplatOf<T>(box);
  ProjectionSearch<T> search{guess};
  while (search.Going()) {
    const PackOf<T> shift = SplatOf<T>(search.t);
    PackOf<T> sums = {};
    BitsOf<T> inside = {};
    for (size_t i = 0; i < rows; i += kW) {
      const PackOf<T> moved = LoadPack(v + i) - shift;
      sums += Smaller(Larger(moved, zero), upper);
      inside -= (moved > zero) & (moved < upper);
    }
    auto free = inside[0];
    for (size_t lane = 1; lane < kW; ++lane) free += inside[lane];
    search.Step(SumOf<T>(sums) - T{1}, static_cast<T>(free), box, [&] {
      const auto [least, most] = std::minmax_element(v, v + n);
      return Ends<T>{*least, *most};
    });
  }
  return search.t;
}

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CPU_PROJECTION_H_
