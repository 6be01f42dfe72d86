// A problem is brought into a block: checked, and K made from its points where it has those. The
// counterpart of cpu/gram.h.
#ifndef LETHE_CORE_BATCHED_CUDA_BLOCK_LOAD_H_
#define LETHE_CORE_BATCHED_CUDA_BLOCK_LOAD_H_

#include "core/batched/cuda/arguments.h"
#include "core/batched/cuda/block_work.h"

namespace lethe::batched {

inline constexpr uint32_t kTile = 8;  // coordinates at a time

// Whether kernels of this kind depend on |x - y|, and not on <x, y>.
LETHE_STEP bool IsDistance(KernelKind kind) {
  return kind == KernelKind::kRbf || kind == KernelKind::kLaplacian;
}

// Coordinates [from, from + kTile) of all points to work.tile, coordinate c of point i at
// c * rows + i; 0 beyond the last.
template <typename Work>
LETHE_STEP void LoadTile(Work& work, const typename Work::Real* points, uint32_t from) {
  using T = typename Work::Real;
  const uint32_t d = work.layout.dimension;
  const uint32_t rows = work.layout.rows;
  work.block.AheadStrided(work.n * kTile, [&](uint32_t e) {
    const uint32_t i = e / kTile;
    const uint32_t c = e % kTile;
    const size_t at = static_cast<size_t>(i) * d + from + c;
    const T value = from + c < d ? points[at] * work.inverse_length[i] : T{0};
    work.tile[c * rows + i] = value;
  });
  work.block.Barrier();
}

// Squared distances or dot products of all pairs to work.factor, a pair an entry; of a point with
// itself only dot products. Sums of squared differences, so near-duplicates keep their digits, and
// each pair is computed once, so K is symmetric to the bit. Cost n^2 d / 2.
template <typename Work>
LETHE_PART void MakePairs(Work& work, const typename Work::Real* points, bool distance) {
  using T = typename Work::Real;
  const uint32_t n = work.n;
  const uint32_t rows = work.layout.rows;
  for (uint32_t from = 0; from < work.layout.dimension; from += kTile) {
    LoadTile(work, points, from);
    Each(work.block, 0, n, [&](uint32_t i) {
      T own[kTile];
      LETHE_UNROLLED
      for (uint32_t c = 0; c < kTile; ++c) own[c] = work.tile[c * rows + i];
      // Lane i has the pairs with the n / 2 points behind it, in a circle: as many for all lanes.
      for (uint32_t step = distance ? 1 : 0; step <= n / 2; ++step) {
        if (2 * step == n && i >= n / 2) continue;  // the other lane of this pair has it
        const uint32_t j = i + step < n ? i + step : i + step - n;
        const uint32_t at = LowerAt(n, std::max(i, j), std::min(i, j));
        T sum = from == 0 ? T{0} : static_cast<T>(work.factor[at]);
        if (distance) {
          LETHE_UNROLLED
          for (uint32_t c = 0; c < kTile; ++c) {
            const T difference = own[c] - work.tile[c * rows + j];
            sum += difference * difference;
          }
        } else {
          LETHE_UNROLLED
          for (uint32_t c = 0; c < kTile; ++c) sum += own[c] * work.tile[c * rows + j];
        }
        work.factor[at] = sum;
      }
    });
  }
}

// Inverse lengths, 1 where points are taken as they are. kUnsolved, or what is wrong with the first
// point that cannot be normalised.
template <typename Work>
LETHE_STEP Outcome MeasureLengths(Work& work, const typename Work::Real* points, bool normalise) {
  using T = typename Work::Real;
  constexpr uint32_t kNothing = 0xffffffffU;
  const uint32_t d = work.layout.dimension;
  const uint32_t wrong = work.block.Reduce(
      work.n, kNothing,
      [&](uint32_t i) {
        work.inverse_length[i] = T{1};
        if (!normalise) return kNothing;
        const T* point = points + static_cast<size_t>(i) * d;
        T square = 0;
        for (uint32_t k = 0; k < d; ++k) square += point[k] * point[k];
        work.inverse_length[i] = 1 / std::sqrt(square);
        if (!std::isfinite(square)) return i * 16 + static_cast<uint32_t>(Outcome::kNotFinite);
        if (square < std::numeric_limits<T>::min()) {
          return i * 16 + static_cast<uint32_t>(Outcome::kZeroKey);
        }
        return kNothing;
      },
      [](uint32_t a, uint32_t b) { return std::min(a, b); });
  return wrong == kNothing ? Outcome::kUnsolved : static_cast<Outcome>(wrong % 16);
}

// K from pairs. False where an exponent is too large, or not a number; entries are checked later.
template <typename Work>
LETHE_STEP bool MakeMatrix(Work& work, KernelKind kind) {
  using T = typename Work::Real;
  const uint32_t n = work.n;
  const bool distance = IsDistance(kind);
  const T scale = distance ? -work.numbers.parameter : work.numbers.parameter;
  const uint32_t wrong = SumOver<uint32_t>(work.block, n, [&](uint32_t i) {
    uint32_t count = 0;
    for (uint32_t step = distance ? 1 : 0; step <= n / 2; ++step) {
      if (2 * step == n && i >= n / 2) continue;
      const uint32_t j = i + step < n ? i + step : i + step - n;
      const uint32_t at = LowerAt(n, std::max(i, j), std::min(i, j));
      const T pair = work.factor[at];
      const T exponent = (kind == KernelKind::kLaplacian ? std::sqrt(pair) : pair) * scale;
      if (kind == KernelKind::kDot) {
        work.factor[at] = exponent;
        continue;
      }
      if (!std::isfinite(exponent) || !(exponent < kMostExponent<T>)) ++count;
      work.factor[at] = exponent > kLeastExponent<T> ? std::exp(exponent) : T{0};
    }
    if (distance) work.factor[LowerAt(n, i, i)] = T{1};
    return count;
  });
  if (wrong > 0) return false;
  Each(work.block, 0, n, [&](uint32_t i) {
    work.matrix.Set(i, [&](uint32_t j) {
      return static_cast<T>(work.factor[LowerAt(n, std::max(i, j), std::min(i, j))]);
    });
  });
  return true;
}

// K as it is given; the largest |K_ij - K_ji|.
template <typename Work>
LETHE_STEP typename Work::Real CopyMatrix(Work& work, const typename Work::Real* from) {
  using T = typename Work::Real;
  const uint32_t n = work.n;
  return MaxOver(work.block, n, T{0}, [&](uint32_t i) {
    // Row j as a column: K is symmetric, and neighbours read neighbours.
    work.matrix.Set(i, [&](uint32_t j) { return from[j * n + i]; });
    T difference = 0;
    for (uint32_t j = 0; j < i; ++j) {
      difference = std::max(difference, std::abs(from[j * n + i] - from[i * n + j]));
    }
    return difference;
  });
}

template <typename T>
struct Measures {
  T row_sum = 0;
  T largest = 0;
  uint32_t wrong = 0;  // entries that are not finite or too large
};

// Scale, row sum and diagonal; false where an entry is not finite or too large.
template <typename Work>
LETHE_STEP bool Measure(Work& work) {
  using T = typename Work::Real;
  const Measures<T> all = work.block.Reduce(
      work.n, Measures<T>{},
      [&](uint32_t i) {
        Measures<T> own;
        work.matrix.Row(i, [&](uint32_t j, T entry) {
          const T magnitude = std::abs(entry);
          if (!(magnitude <= kLargestEntry<T>)) ++own.wrong;
          own.row_sum += magnitude;
          own.largest = std::max(own.largest, magnitude);
          if (j == i) work.diagonal[i] = entry;
        });
        return own;
      },
      [](const Measures<T>& a, const Measures<T>& b) {
        return Measures<T>{std::max(a.row_sum, b.row_sum), std::max(a.largest, b.largest),
                           a.wrong + b.wrong};
      });
  work.numbers.row_sum = all.row_sum;
  work.numbers.scale = all.largest;
  return all.wrong == 0;
}

// Problem b of the batch: numbers, K, diagonal and inverse lengths; vectors are 0 from n on.
// Returns kUnsolved, or what is wrong with it.
template <typename Work, typename Problems>
LETHE_PART Outcome Load(Work& work, const Problems& problems, size_t b) {
  using T = typename Work::Real;
  const uint32_t n = work.n;
  const size_t d = work.layout.dimension;
  auto& numbers = work.numbers;
  numbers.box = problems.box[problems.box_each ? b : 0];
  numbers.ridge = problems.ridge[problems.ridge_each ? b : 0];
  const Outcome checked = CheckNumbers(numbers);
  if (checked != Outcome::kUnsolved) return checked;
  if (d > 0) {
    numbers.parameter = problems.parameter[problems.parameter_each ? b : 0];
    const Outcome parameter = CheckParameter(numbers.parameter);
    if (parameter != Outcome::kUnsolved) return parameter;
    const T* points = problems.points + b * n * d;
    const Outcome lengths = MeasureLengths(work, points, problems.kernel.normalise);
    if (lengths != Outcome::kUnsolved) return lengths;
    MakePairs(work, points, IsDistance(problems.kernel.kind));
    if (!MakeMatrix(work, problems.kernel.kind) || !Measure(work)) return Outcome::kNotFinite;
  } else {
    const T difference = CopyMatrix(work, problems.matrices + b * n * n);
    if (!Measure(work)) return Outcome::kNotFinite;
    if (!(difference <= kSymmetric<T> * numbers.scale)) return Outcome::kNotSymmetric;
  }
  // Whole vectors, so that products may read them by fours; the tile is done with.
  Each(work.block, 0, work.layout.rows, [&](uint32_t i) {
    work.x[i] = T{0};
    work.y[i] = T{0};
    work.lambda[i] = T{0};
  });
  return Outcome::kUnsolved;
}

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CUDA_BLOCK_LOAD_H_
