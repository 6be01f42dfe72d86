// A few floats or doubles side by side, for the loops of the CPU backend: as many as the build's
// instruction set holds (cmake: LETHE_MARCH). Unlike core/base/simd.h both precisions, and a fused
// product only where the processor has one: nothing here is a published bit.
#ifndef LETHE_CORE_BATCHED_CPU_PACKS_H_
#define LETHE_CORE_BATCHED_CPU_PACKS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/base/simd.h"

namespace lethe::batched {

inline constexpr size_t kPackBytes = LETHE_WIDE_PACKS ? 32 : 16;
template <typename T>
inline constexpr size_t kPack = kPackBytes / sizeof(T);
// Vectors and columns are padded to it; a multiple of both precisions' packs.
inline constexpr size_t kPadding = 8;

template <typename T>
struct PackTypes;
template <>
struct PackTypes<double> {
  using Pack = double __attribute__((vector_size(kPackBytes)));
  using Bits = int64_t __attribute__((vector_size(kPackBytes)));
};
template <>
struct PackTypes<float> {
  using Pack = float __attribute__((vector_size(kPackBytes)));
  using Bits = int32_t __attribute__((vector_size(kPackBytes)));
};
template <typename T>
using PackOf = typename PackTypes<T>::Pack;
template <typename T>
using BitsOf = typename PackTypes<T>::Bits;

template <typename T>
inline PackOf<T> SplatOf(T value) {
  // Minus: value + 0 would be computed, as it is not -0 where value is.
  return value - PackOf<T>{};
}
template <typename T>
inline PackOf<T> LoadPack(const T* from) {
  PackOf<T> pack;
  std::memcpy(&pack, from, sizeof(pack));
  return pack;
}
template <typename T>
inline void StorePack(PackOf<T> pack, T* to) {
  std::memcpy(to, &pack, sizeof(pack));
}

#if LETHE_WIDE_PACKS
inline PackOf<double> MultiplyAdd(PackOf<double> a, PackOf<double> b, PackOf<double> c) {
  return _mm256_fmadd_pd(a, b, c);
}
inline PackOf<float> MultiplyAdd(PackOf<float> a, PackOf<float> b, PackOf<float> c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline PackOf<double> Larger(PackOf<double> a, PackOf<double> b) { return _mm256_max_pd(a, b); }
inline PackOf<float> Larger(PackOf<float> a, PackOf<float> b) { return _mm256_max_ps(a, b); }
inline PackOf<double> Smaller(PackOf<double> a, PackOf<double> b) { return _mm256_min_pd(a, b); }
inline PackOf<float> Smaller(PackOf<float> a, PackOf<float> b) { return _mm256_min_ps(a, b); }
#else
template <typename Pack>
inline Pack MultiplyAdd(Pack a, Pack b, Pack c) {
  return a * b + c;
}
template <typename Pack>
inline Pack Larger(Pack a, Pack b) {
  for (size_t lane = 0; lane < sizeof(Pack) / sizeof(a[0]); ++lane) {
    a[lane] = a[lane] > b[lane] ? a[lane] : b[lane];
  }
  return a;
}
template <typename Pack>
inline Pack Smaller(Pack a, Pack b) {
  for (size_t lane = 0; lane < sizeof(Pack) / sizeof(a[0]); ++lane) {
    a[lane] = a[lane] < b[lane] ? a[lane] : b[lane];
  }
  return a;
}
#endif

// body(0), ..., body(kCount - 1), each a copy of its own: lanes of packs must be known to the
// compiler, or the pack goes through memory.
template <size_t kCount, typename Body>
[[gnu::always_inline]] inline void Unrolled(const Body& body) {
  [&]<size_t... kAt>(std::index_sequence<kAt...>) {
    (body(std::integral_constant<size_t, kAt>{}), ...);
  }
  (std::make_index_sequence<kCount>{});
}

template <typename T>
inline T SumOf(PackOf<T> pack) {
  T sum = pack[0];
  for (size_t lane = 1; lane < kPack<T>; ++lane) sum += pack[lane];
  return sum;
}

// sum_i x_i y_i over `size` padded entries (a multiple of kPadding).
template <typename T>
inline T DotPadded(const T* x, const T* y, size_t size) {
  constexpr size_t kW = kPack<T>;
  PackOf<T> sum[2] = {};
  size_t i = 0;
  for (; i + 2 * kW <= size; i += 2 * kW) {
    sum[0] = MultiplyAdd(LoadPack(x + i), LoadPack(y + i), sum[0]);
    sum[1] = MultiplyAdd(LoadPack(x + i + kW), LoadPack(y + i + kW), sum[1]);
  }
  for (; i < size; i += kW) sum[0] = MultiplyAdd(LoadPack(x + i), LoadPack(y + i), sum[0]);
  return SumOf<T>(sum[0] + sum[1]);
}

inline constexpr size_t Padded(size_t n) { return (n + kPadding - 1) / kPadding * kPadding; }

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CPU_PACKS_H_
