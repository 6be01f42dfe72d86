// The nearest point of the constraints.
//
//     x = argmin |x - v|^2  s.t.  sum x = 1, 0 <= x <= C          x_i = min(max(v_i - t, 0), C)
//
// The multiplier t is the root of sum_i min(max(v_i - t, 0), C) - 1, which falls and is linear
// between breakpoints: Newton's method, kept inside a bracket, ends at the root of the piece that
// it is in; 1.3 to 1.9 evaluations from the t of the step before.
//
//     ProjectionSearch<T> search{guess};
//     while (search.Going()) search.Step(sum at search.t - 1, free entries there, ends of v);
#ifndef LETHE_CORE_BATCHED_METHOD_PROJECTION_SEARCH_H_
#define LETHE_CORE_BATCHED_METHOD_PROJECTION_SEARCH_H_

#include "core/batched/method/numbers.h"

namespace lethe::batched {

template <typename T>
struct Ends {
  T least = std::numeric_limits<T>::infinity();
  T most = -std::numeric_limits<T>::infinity();
};

// Requires finite v and guess, n C > 1. Where rounding leaves the sum off 1, it is by a few
// roundings.
template <typename T>
struct ProjectionSearch {
  T t = 0;  // where the next sum is wanted; at last the answer
  T low = -std::numeric_limits<T>::infinity();
  T high = std::numeric_limits<T>::infinity();
  bool bracketed = false;
  int left = 200;

  LETHE_STEP bool Going() const { return left > 0; }

  // `free`: how many entries are strictly inside (0, C). `ends`: called at most once, gives min and
  // max of v.
  template <typename EndsOf>
  LETHE_STEP void Step(T excess, T free, T box, const EndsOf& ends) {
    --left;
    if (excess > 0) {
      low = t;
    } else {
      high = t;
    }
    if (excess == 0) {
      left = 0;
      return;
    }
    T next = t;
    if (free > 0) next = t + excess / free;
    if (free > 0 && next > low && next < high) {
      // On a piece the step is exact; what remains is rounding.
      if (std::abs(excess) <= 4 * std::numeric_limits<T>::epsilon()) left = 0;
    } else {
      if (!bracketed) {
        // All weights at C at the one end, all 0 at the other.
        bracketed = true;
        const Ends<T> of_v = ends();
        low = std::max(low, of_v.least - box);
        high = std::min(high, of_v.most);
      }
      next = low + (high - low) / 2;
      if (!(next > low && next < high)) {  // neighbours
        left = 0;
        return;
      }
    }
    t = next;
  }
};

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_METHOD_PROJECTION_SEARCH_H_
