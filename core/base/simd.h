// A few doubles side by side, with the operators of one: as many as the build's instruction set
// holds (cmake: LETHE_MARCH). Lane by lane the same IEEE operations as on doubles, so that what is
// computed does not depend on the width.
#ifndef LETHE_CORE_BASE_SIMD_H_
#define LETHE_CORE_BASE_SIMD_H_

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define LETHE_WIDE_PACKS 1
#else
#define LETHE_WIDE_PACKS 0
#endif

namespace lethe {

inline constexpr size_t kLanes = LETHE_WIDE_PACKS ? 4 : 2;
using Pack = double __attribute__((vector_size(kLanes * sizeof(double))));
using PackBits = int64_t __attribute__((vector_size(kLanes * sizeof(int64_t))));

inline Pack Splat(double value) {
  Pack pack{};
  for (size_t lane = 0; lane < kLanes; ++lane) pack[lane] = value;
  return pack;
}
// The same value in every lane, for code that is written for both.
template <typename T>
T Broadcast(double value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return Splat(value);
  }
}
inline Pack Load(const double* from) {
  Pack pack{};
  std::memcpy(&pack, from, sizeof(pack));
  return pack;
}
inline Pack LoadSingle(const float* from) {
  using Singles = float __attribute__((vector_size(kLanes * sizeof(float))));
  Singles singles{};
  std::memcpy(&singles, from, sizeof(singles));
  return __builtin_convertvector(singles, Pack);
}
inline void Store(Pack pack, double* to) { std::memcpy(to, &pack, sizeof(pack)); }

// a b + c, rounded once.
inline double Fma(double a, double b, double c) { return std::fma(a, b, c); }
inline Pack Fma(Pack a, Pack b, Pack c) {
#if LETHE_WIDE_PACKS
  return _mm256_fmadd_pd(a, b, c);
#else
  Pack result{};
  for (size_t lane = 0; lane < kLanes; ++lane) result[lane] = std::fma(a[lane], b[lane], c[lane]);
  return result;
#endif
}

inline Pack SquareRoots(Pack a) {
#if LETHE_WIDE_PACKS
  return _mm256_sqrt_pd(a);
#else
  Pack result{};
  for (size_t lane = 0; lane < kLanes; ++lane) result[lane] = std::sqrt(a[lane]);
  return result;
#endif
}

// The lanes of `value` where the lane of `x` is at least `bound`, 0 elsewhere.
inline Pack WhereAtLeast(Pack x, Pack bound, Pack value) {
  const PackBits mask = x >= bound;
  return std::bit_cast<Pack>(std::bit_cast<PackBits>(value) & mask);
}

// Rounds to an integer and leaves it in the low bits as well; |x| below 2^51.
inline constexpr double kRoundingShift = 0x1.8p52;
// 2^k for integers k in [-1022, 1023], from k + kRoundingShift.
inline double PowerOfTwo(double shifted) {
  return std::bit_cast<double>((std::bit_cast<int64_t>(shifted) + 1023) << 52);
}
inline Pack PowerOfTwo(Pack shifted) {
  return std::bit_cast<Pack>((std::bit_cast<PackBits>(shifted) + 1023) << 52);
}

}  // namespace lethe

#endif  // LETHE_CORE_BASE_SIMD_H_
