// The factor of the margin: made, solved with, one row more, one row less. The counterpart of
// cpu/factor.h; row k belongs to lane k. A barrier a column: size of them a call, 2 size a solve.
#ifndef LETHE_CORE_BATCHED_CUDA_BLOCK_FACTOR_H_
#define LETHE_CORE_BATCHED_CUDA_BLOCK_FACTOR_H_

#include "core/batched/cuda/block_work.h"

namespace lethe::batched {

// The factor of the matrix whose lower triangle but for the diagonal stands in work.factor; the
// diagonal is 2 K_ii + rho. False, for all lanes: not positive definite.
template <typename Work>
LETHE_STEP bool Factorise(Work& work) {
  using T = typename Work::Real;
  auto& block = work.block;
  const uint32_t n = work.n;
  const uint32_t size = work.margin();
  const T least = work.numbers.least_pivot();
  typename Work::Block::template Private<T, 1> entry;
  for (uint32_t k = 0; k < size; ++k) {
    T pivot = 0;
    block.Ahead(0, block.lanes(), [&](uint32_t i) {
      // Every lane finds the pivot for itself, which saves a barrier.
      const uint32_t row = i > k && i < size ? i : k;
      T rest = row > k ? static_cast<T>(work.factor[LowerAt(n, row, k)]) : T{0};
      T own = 2 * work.diagonal[work.order[k]] + work.numbers.ridge;
      uint32_t at = k;  // of L_kj; L_ij is row - k behind
      for (uint32_t j = 0; j < k; ++j) {
        const T top = work.factor[at];
        own -= top * top;
        rest -= top * work.factor[at + (row - k)];
        at += n - j - 1;
      }
      entry.At(i, 0) = rest;
      block.Agree(&pivot, own);
    });
    if (!(pivot > least)) return false;
    const T inverse = 1 / std::sqrt(pivot);
    block.Ahead(k, size, [&](uint32_t i) {
      work.factor[LowerAt(n, i, k)] = i == k ? pivot * inverse : entry.At(i, 0) * inverse;
      if (i == k) work.inverse_pivots[k] = inverse;
    });
    block.Barrier();
  }
  return true;
}

// L z = r for the `kCount` numbers of each lane, in their place; z is also left in delta and ones.
template <uint32_t kCount, typename Work, typename Right>
LETHE_STEP void SolveForward(Work& work, Right& r) {
  using T = typename Work::Real;
  auto& block = work.block;
  const uint32_t size = work.margin();
  for (uint32_t k = 0; k < size; ++k) {
    block.Ahead(k, k + 1, [&](uint32_t i) {
      const T inverse = work.inverse_pivots[k];
      LETHE_UNROLLED
      for (uint32_t c = 0; c < kCount; ++c) {
        const T z = r.At(i, c) * inverse;
        r.At(i, c) = z;
        (c == 0 ? work.delta : work.ones)[k] = z;
      }
    });
    block.Barrier();
    block.Ahead(k + 1, size, [&](uint32_t i) {
      const T entry = work.factor[LowerAt(work.n, i, k)];
      LETHE_UNROLLED
      for (uint32_t c = 0; c < kCount; ++c) {
        const T z = (c == 0 ? work.delta : work.ones)[k];
        r.At(i, c) -= entry * z;
      }
    });
  }
}

// L L' x = r, the same.
template <uint32_t kCount, typename Work, typename Right>
LETHE_PART void SolveBoth(Work& work, Right& r) {
  using T = typename Work::Real;
  auto& block = work.block;
  SolveForward<kCount>(work, r);
  for (uint32_t k = work.margin(); k-- > 0;) {
    block.Ahead(k, k + 1, [&](uint32_t i) {
      const T inverse = work.inverse_pivots[k];
      LETHE_UNROLLED
      for (uint32_t c = 0; c < kCount; ++c) {
        const T z = r.At(i, c) * inverse;
        r.At(i, c) = z;
        (c == 0 ? work.delta : work.ones)[k] = z;
      }
    });
    block.Barrier();
    block.Ahead(0, k, [&](uint32_t i) {
      const T entry = work.factor[LowerAt(work.n, k, i)];
      LETHE_UNROLLED
      for (uint32_t c = 0; c < kCount; ++c) {
        const T z = (c == 0 ? work.delta : work.ones)[k];
        r.At(i, c) -= entry * z;
      }
    });
  }
}

// `point` becomes the margin's last row. False: not positive definite, and all is as before.
template <typename Work>
LETHE_PART bool AppendRow(Work& work, uint32_t point) {
  using T = typename Work::Real;
  auto& block = work.block;
  const uint32_t size = work.margin();
  Each(block, 0, work.n, [&](uint32_t i) {
    if (work.InMargin(i)) work.update[work.position[i]] = 2 * work.matrix.At(i, point);
  });
  typename Work::Block::template Private<T, 1> r;
  block.Ahead(0, size, [&](uint32_t k) { r.At(k, 0) = work.update[k]; });
  SolveForward<1>(work, r);
  const T squares = SumOver<T>(block, size, [&](uint32_t k) { return r.At(k, 0) * r.At(k, 0); });
  const T pivot = 2 * work.diagonal[point] + work.numbers.ridge - squares;
  if (!(pivot > work.numbers.least_pivot())) return false;
  const T root = std::sqrt(pivot);
  Each(block, 0, size + 1, [&](uint32_t k) {
    work.factor[LowerAt(work.n, size, k)] = k < size ? r.At(k, 0) : root;
    if (k < size) return;
    work.inverse_pivots[size] = 1 / root;
    work.order[size] = point;
    work.position[point] = size;
    work.labels[point] = static_cast<uint8_t>(Label::kMargin);
  });
  ++work.numbers.margin;
  return true;
}

// Row `at` leaves the factor, not yet the order. The rows behind gain v v' of the column that goes.
template <typename Work>
LETHE_PART void RemoveRow(Work& work, uint32_t at) {
  using T = typename Work::Real;
  auto& block = work.block;
  const uint32_t n = work.n;
  const uint32_t last = work.margin() - 1;
  // Columns before it lose an entry: a column a lane, so that no lane reads what another moves.
  block.Ahead(0, at, [&](uint32_t k) {
    for (uint32_t i = at; i < last; ++i) {
      work.factor[LowerAt(n, i, k)] = static_cast<T>(work.factor[LowerAt(n, i + 1, k)]);
    }
  });
  Each(block, at, last,
       [&](uint32_t i) { work.update[i] = static_cast<T>(work.factor[LowerAt(n, i + 1, at)]); });
  for (uint32_t k = at; k < last; ++k) {
    const T old = work.factor[LowerAt(n, k + 1, k + 1)];
    const T gained = work.update[k];
    const T root = std::sqrt(old * old + gained * gained);
    const T c = old / root;
    const T s = gained / root;
    Each(block, k, last, [&](uint32_t i) {
      if (i == k) {
        work.factor[LowerAt(n, k, k)] = root;
        work.inverse_pivots[k] = 1 / root;
        return;
      }
      const T entry = work.factor[LowerAt(n, i + 1, k + 1)];
      const T other = work.update[i];
      work.factor[LowerAt(n, i, k)] = c * entry + s * other;
      work.update[i] = c * other - s * entry;
    });
  }
}

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CUDA_BLOCK_FACTOR_H_
