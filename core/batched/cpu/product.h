// Products with the stored matrix, which is symmetric, so that its rows are its columns.
//
//     q = K x      K: n columns of `rows` entries, `stride` apart; rows a multiple of kPadding
//
// Columns whose x is 0 cost nothing: weights are sparse.
#ifndef LETHE_CORE_BATCHED_CPU_PRODUCT_H_
#define LETHE_CORE_BATCHED_CPU_PRODUCT_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/batched/cpu/packs.h"

namespace lethe::batched {

namespace internal {

// Rows [0, kPacks packs) of the product. at(k) is the k-th column and its weight.
template <typename T, size_t kPacks, typename Columns>
inline void ProductRows(const T* matrix, size_t count, const Columns& at, T* result) {
  PackOf<T> sum[kPacks] = {};
  for (size_t k = 0; k < count; ++k) {
    const auto [column, weight] = at(k);
    const PackOf<T> value = SplatOf<T>(weight);
    for (size_t i = 0; i < kPacks; ++i) {
      sum[i] = MultiplyAdd(LoadPack(matrix + column + i * kPack<T>), value, sum[i]);
    }
  }
  for (size_t i = 0; i < kPacks; ++i) StorePack<T>(sum[i], result + i * kPack<T>);
}

template <typename T, typename Columns>
inline void ProductOf(const T* matrix, size_t rows, size_t count, const Columns& at, T* result) {
  constexpr size_t kW = kPack<T>;
  size_t row = 0;
  for (; row + 8 * kW <= rows; row += 8 * kW) {
    ProductRows<T, 8>(matrix + row, count, at, result + row);
  }
  for (; row + 4 * kW <= rows; row += 4 * kW) {
    ProductRows<T, 4>(matrix + row, count, at, result + row);
  }
  for (; row < rows; row += kW) ProductRows<T, 1>(matrix + row, count, at, result + row);
}

}  // namespace internal

// `columns` and `values` are scratch of n entries; x has padding 0.
template <typename T>
inline void Product(const T* matrix,
                    size_t stride,
                    size_t rows,
                    size_t n,
                    const T* x,
                    uint32_t* columns,
                    T* values,
                    T* result) {
  BitsOf<T> zeros = {};
  for (size_t j = 0; j < rows; j += kPack<T>) zeros += LoadPack(x + j) == PackOf<T>{};
  size_t filled = rows;
  for (size_t lane = 0; lane < kPack<T>; ++lane) filled -= static_cast<size_t>(-zeros[lane]);
  // A list of columns costs about as much as a fifth of them.
  if (5 * filled >= 4 * n) {
    const auto at = [&](size_t j) { return std::pair<size_t, T>(j * stride, x[j]); };
    internal::ProductOf(matrix, rows, n, at, result);
    return;
  }
  size_t count = 0;
  for (size_t j = 0; j < n; ++j) {
    columns[count] = static_cast<uint32_t>(j * stride);
    values[count] = x[j];
    count += x[j] != T{0} ? 1 : 0;
  }
  const auto at = [&](size_t k) { return std::pair<size_t, T>(columns[k], values[k]); };
  internal::ProductOf(matrix, rows, count, at, result);
}

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CPU_PRODUCT_H_
