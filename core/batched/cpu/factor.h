// A Cholesky factor L of a small symmetric positive definite matrix, columns `stride` apart, that
// takes a row more or a row less.
//
//     A = L L'     L lower triangular, L_kk = 1 / inverse[k]
//
// Requires stride >= size + 2 kPadding. Entries above the diagonal and from row `size` on are read
// and written by whole packs and mean nothing, but must be finite. Each call costs what it says in
// fused operations, in loops over columns. Nothing is allocated. `floor` is the least pivot that
// counts as positive.
#ifndef LETHE_CORE_BATCHED_CPU_FACTOR_H_
#define LETHE_CORE_BATCHED_CPU_FACTOR_H_

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/batched/cpu/packs.h"

namespace lethe::batched {

// The factor of the matrix in `factor` (its lower triangle), in its place; size^3 / 6. Four columns
// at a time, strips of two packs by four columns in registers. False: not positive definite.
template <typename T>
inline bool Factorise(T* factor, size_t stride, size_t size, T floor, T* inverse) {
  using Pack = PackOf<T>;
  constexpr size_t kW = kPack<T>;
  constexpr size_t kPanel = 4;
  for (size_t first = 0; first < size; first += kPanel) {
    const size_t width = std::min(kPanel, size - first);
    T lower[kPanel][kPanel] = {};  // the panel's own triangle, and its inverse pivots
    T pivots[kPanel] = {};
    for (size_t row = first; row < size; row += 2 * kW) {
      Pack sum[kPanel][2];
      for (size_t c = 0; c < kPanel; ++c) {
        // Columns beyond the last are another strip's business: they are read, not written.
        const T* from = factor + (first + std::min(c, width - 1)) * stride + row;
        sum[c][0] = LoadPack(from);
        sum[c][1] = LoadPack(from + kW);
      }
      const T* left = factor + row;
      const T* top = factor + first;
      for (size_t k = 0; k < first; ++k, left += stride, top += stride) {
        const Pack low = -LoadPack(left);
        const Pack high = -LoadPack(left + kW);
        for (size_t c = 0; c < kPanel; ++c) {
          const Pack own = SplatOf<T>(top[c]);
          sum[c][0] = MultiplyAdd(low, own, sum[c][0]);
          sum[c][1] = MultiplyAdd(high, own, sum[c][1]);
        }
      }
      if (row == first) {
        T block[kPanel][2 * kW];
        for (size_t c = 0; c < width; ++c) {
          StorePack<T>(sum[c][0], block[c]);
          StorePack<T>(sum[c][1], block[c] + kW);
        }
        for (size_t c = 0; c < width; ++c) {
          T pivot = block[c][c];
          for (size_t k = 0; k < c; ++k) pivot -= lower[c][k] * lower[c][k];
          if (!(pivot > floor)) return false;
          pivots[c] = 1 / std::sqrt(pivot);
          inverse[first + c] = pivots[c];
          for (size_t i = c + 1; i < width; ++i) {
            T entry = block[c][i];
            for (size_t k = 0; k < c; ++k) entry -= lower[i][k] * lower[c][k];
            lower[i][c] = entry * pivots[c];
          }
        }
      }
      for (size_t c = 0; c < width; ++c) {
        for (size_t k = 0; k < c; ++k) {
          const Pack own = SplatOf<T>(-lower[c][k]);
          sum[c][0] = MultiplyAdd(sum[k][0], own, sum[c][0]);
          sum[c][1] = MultiplyAdd(sum[k][1], own, sum[c][1]);
        }
        const Pack pivot = SplatOf<T>(pivots[c]);
        sum[c][0] *= pivot;
        sum[c][1] *= pivot;
        T* to = factor + (first + c) * stride + row;
        StorePack<T>(sum[c][0], to);
        StorePack<T>(sum[c][1], to + kW);
      }
    }
  }
  return true;
}

namespace internal {

// The lanes behind one, 0 in the others.
template <typename T>
inline PackOf<T> BehindLane(size_t lane, PackOf<T> pack) {
  BitsOf<T> mask;
  for (size_t i = 0; i < kPack<T>; ++i) mask[i] = i > lane ? -1 : 0;
  return mask ? pack : PackOf<T>{};
}
// The pack with another value in a lane. By selection: an assignment would go through memory.
template <typename T>
inline PackOf<T> WithLane(size_t lane, T value, PackOf<T> pack) {
  BitsOf<T> mask;
  for (size_t i = 0; i < kPack<T>; ++i) mask[i] = i == lane ? -1 : 0;
  return mask ? SplatOf<T>(value) : pack;
}

// Solves L z = b for several b at once, in their place; size^2 / 2 each. A pack of columns at a
// time, whose own rows stay in registers: a pack that is read where a part of it, or its neighbour,
// has just been written waits for memory.
template <typename T, size_t kCount>
inline void SolveForward(const T* factor,
                         size_t stride,
                         size_t size,
                         const T* inverse,
                         T* const (&x)[kCount]) {
  using Pack = PackOf<T>;
  constexpr size_t kW = kPack<T>;
  for (size_t first = 0; first < size; first += kW) {
    const T* const columns = factor + first * stride;
    const size_t width = std::min(kW, size - first);
    Pack rest[kCount];
    Pack found[kCount];
    Pack own[kCount][kW];
    for (size_t r = 0; r < kCount; ++r) found[r] = rest[r] = LoadPack(x[r] + first);
    Unrolled<kW>([&](auto at) {
      constexpr size_t c = at;
      if (c >= width) return;
      const Pack entries = BehindLane<T>(c, LoadPack(columns + c * stride + first));
      for (size_t r = 0; r < kCount; ++r) {
        const T value = rest[r][c] * inverse[first + c];
        found[r] = WithLane<T>(c, value, found[r]);
        own[r][c] = SplatOf<T>(-value);
        rest[r] = MultiplyAdd(entries, own[r][c], rest[r]);
      }
    });
    for (size_t r = 0; r < kCount; ++r) StorePack<T>(found[r], x[r] + first);
    for (size_t row = first + kW; row < size; row += kW) {
      Pack sum[kCount];
      for (size_t r = 0; r < kCount; ++r) sum[r] = LoadPack(x[r] + row);
      for (size_t c = 0; c < kW; ++c) {
        const Pack entries = LoadPack(columns + c * stride + row);
        for (size_t r = 0; r < kCount; ++r) sum[r] = MultiplyAdd(entries, own[r][c], sum[r]);
      }
      for (size_t r = 0; r < kCount; ++r) StorePack<T>(sum[r], x[r] + row);
    }
  }
}

// Solves L' x = b, the same. Requires zeros from row `size` on, as far as a pack goes. The entries
// behind the diagonal are added by lanes, the first lane being the row below it.
template <typename T, size_t kCount>
inline void SolveBackward(const T* factor,
                          size_t stride,
                          size_t size,
                          const T* inverse,
                          T* const (&x)[kCount]) {
  using Pack = PackOf<T>;
  constexpr size_t kW = kPack<T>;
  for (size_t first = (size + kW - 1) / kW * kW; first > 0;) {
    first -= kW;
    const T* const columns = factor + first * stride;
    Pack right[kCount];
    Pack found[kCount] = {};
    for (size_t r = 0; r < kCount; ++r) right[r] = LoadPack(x[r] + first);
    Unrolled<kW>([&](auto from_last) {
      constexpr size_t c = kW - 1 - from_last;
      if (first + c >= size) return;
      const T* const column = columns + c * stride;
      Pack sum[kCount];
      const Pack entries = LoadPack(column + first);
      for (size_t r = 0; r < kCount; ++r) sum[r] = MultiplyAdd(entries, found[r], Pack{});
      for (size_t row = first + kW; row < size; row += kW) {
        const Pack below = LoadPack(column + row);
        for (size_t r = 0; r < kCount; ++r) {
          sum[r] = MultiplyAdd(below, LoadPack(x[r] + row), sum[r]);
        }
      }
      for (size_t r = 0; r < kCount; ++r) {
        T total = sum[r][(c + 1) % kW];
        for (size_t lane = 2; lane <= kW; ++lane) total += sum[r][(c + lane) % kW];
        found[r] = WithLane<T>(c, (right[r][c] - total) * inverse[first + c], found[r]);
      }
    });
    for (size_t r = 0; r < kCount; ++r) StorePack<T>(found[r], x[r] + first);
  }
}

}  // namespace internal

// Solves L L' x = b for several b at once, in their place; size^2 each.
template <typename T, size_t kCount>
inline void Solve(const T* factor,
                  size_t stride,
                  size_t size,
                  const T* inverse,
                  T* const (&x)[kCount]) {
  internal::SolveForward<T, kCount>(factor, stride, size, inverse, x);
  // What the packs wrote past the end must not come back in the sums.
  for (size_t r = 0; r < kCount; ++r) std::fill(x[r] + size, x[r] + size + kPack<T>, T{0});
  internal::SolveBackward<T, kCount>(factor, stride, size, inverse, x);
}

// One row more, at the end: `row` has size + 1 entries of the matrix and is overwritten (stride
// entries); size^2 / 2. False: not positive definite, and the factor is as before.
template <typename T>
inline bool AppendRow(T* factor, size_t stride, size_t size, T floor, T* inverse, T* row) {
  T pivot = row[size];
  internal::SolveForward<T, 1>(factor, stride, size, inverse, {row});
  for (size_t k = 0; k < size; ++k) pivot -= row[k] * row[k];
  if (!(pivot > floor)) return false;
  for (size_t k = 0; k < size; ++k) factor[k * stride + size] = row[k];
  std::fill(factor + size * stride, factor + (size + 1) * stride, T{0});
  const T root = std::sqrt(pivot);
  factor[size * stride + size] = root;
  inverse[size] = 1 / root;
  return true;
}

// Row `at` leaves; (size - at)^2. `work` is scratch of stride entries. What remains stays positive
// definite: the rows behind gain v v' of the column that goes.
template <typename T>
inline void RemoveRow(T* factor, size_t stride, size_t size, size_t at, T* inverse, T* work) {
  using Pack = PackOf<T>;
  constexpr size_t kW = kPack<T>;
  const size_t last = size - 1;
  for (size_t k = 0; k < at; ++k) {
    T* column = factor + k * stride;
    std::copy(column + at + 1, column + size, column + at);
  }
  // work[i] is what row i + 1 of the old factor has in the column that goes.
  std::copy(factor + at * stride + at + 1, factor + at * stride + size, work + at);
  std::fill(work + last, work + last + kW, T{0});
  // Packs on their boundaries, so that none is read across two that have just been written. What
  // comes before row k in the first one means nothing, and rotations keep it as small as it is.
  std::fill(work + at / kW * kW, work + at, T{0});
  for (size_t k = at; k < last; ++k) {
    const T* from = factor + (k + 1) * stride + 1;
    T* to = factor + k * stride;
    const T old = from[k];
    const T root = std::sqrt(old * old + work[k] * work[k]);
    const Pack c = SplatOf<T>(old / root);
    const Pack s = SplatOf<T>(work[k] / root);
    for (size_t i = k / kW * kW; i < last; i += kW) {
      const Pack entry = LoadPack(from + i);
      const Pack other = LoadPack(work + i);
      StorePack<T>(MultiplyAdd(c, entry, s * other), to + i);
      StorePack<T>(MultiplyAdd(c, other, -(s * entry)), work + i);
    }
    inverse[k] = 1 / root;
    to[k] = root;
  }
}

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CPU_FACTOR_H_
