// The derivatives by points and kernel parameter, from those by K, which are (9)'s: the counterpart
// of PointsBackward in cpu/gram.h.
//
//     dL = sum_ij G_ij dK_ij,  G = diag(lambda) - lambda a' - a lambda'
#ifndef LETHE_CORE_BATCHED_CUDA_BLOCK_POINTS_H_
#define LETHE_CORE_BATCHED_CUDA_BLOCK_POINTS_H_

#include "core/batched/cuda/block_load.h"
#include "core/batched/cuda/block_work.h"

namespace lethe::batched {

// K_ij becomes what point i moves by: along x_i - x_j for kernels of distances, along x_j for
// those of dot products. Requires MakePairs anew. Returns the derivative by the parameter.
template <typename Work>
LETHE_STEP typename Work::Real MakeFactors(Work& work, KernelKind kind) {
  using T = typename Work::Real;
  const uint32_t n = work.n;
  const T p = work.numbers.parameter;
  const bool dot = kind == KernelKind::kDot;
  return SumOver<T>(work.block, n, [&](uint32_t i) {
    T parameter = 0;
    const T lambda = work.lambda[i];
    const T weight_i = work.x[i];
    for (uint32_t j = 0; j < n; ++j) {
      const T value = work.matrix.At(i, j);
      const T pair = i == j && IsDistance(kind)
                         ? T{0}
                         : work.factor[LowerAt(n, std::max(i, j), std::min(i, j))];
      if (i == j) {
        if (IsDistance(kind)) {
          work.matrix.Put(i, i, T{0});
          continue;
        }
        const T weight = lambda * (1 - 2 * weight_i) * (dot ? T{1} : value);
        parameter += weight * pair;
        work.matrix.Put(i, i, 2 * weight * p);
        continue;
      }
      // By x_i and x_j at once, so each pair counts once for the parameter.
      const T weight = -2 * (lambda * work.x[j] + weight_i * work.lambda[j]);
      T slope = 0;
      T by_parameter = 0;
      if (kind == KernelKind::kRbf) {
        slope = -2 * p * value;
        by_parameter = -pair * value;
      } else if (kind == KernelKind::kLaplacian) {
        const T length = std::sqrt(pair);
        // Where two points coincide it has a kink; the mean over all directions, 0, is taken.
        slope = length > 0 ? -p / length * value : T{0};
        by_parameter = -length * value;
      } else {
        slope = p * (dot ? T{1} : value);
        by_parameter = pair * (dot ? T{1} : value);
      }
      if (j < i) parameter += weight * by_parameter;
      work.matrix.Put(i, j, weight * slope);
    }
    return parameter;
  });
}

// Requires a loaded problem with points, x and lambda. `points_bar` has n x dimension entries; what
// belongs to a point that is 0 in x and lambda is exactly 0. Cost n^2 d.
template <typename Work>
LETHE_PART typename Work::Real PointsBackward(Work& work,
                                              const KernelForm& kernel,
                                              const typename Work::Real* points,
                                              typename Work::Real* points_bar) {
  using T = typename Work::Real;
  const uint32_t n = work.n;
  const uint32_t d = work.layout.dimension;
  const uint32_t rows = work.layout.rows;
  const bool distance = IsDistance(kernel.kind);
  MakePairs(work, points, distance);
  const T parameter = MakeFactors(work, kernel.kind);
  typename Work::Block::template Private<T, 1> along;  // <x, dL/dx>
  work.block.Ahead(0, n, [&](uint32_t i) { along.At(i, 0) = 0; });
  for (uint32_t from = 0; from < d; from += kTile) {
    LoadTile(work, points, from);
    Each(work.block, 0, n, [&](uint32_t i) {
      T own[kTile];
      T sum[kTile] = {};
      LETHE_UNROLLED
      for (uint32_t c = 0; c < kTile; ++c) own[c] = work.tile[c * rows + i];
      if (work.x[i] != T{0} || work.lambda[i] != T{0}) {
        for (uint32_t j = 0; j < n; ++j) {
          const T factor = work.matrix.At(i, j);
          LETHE_UNROLLED
          for (uint32_t c = 0; c < kTile; ++c) {
            const T other = work.tile[c * rows + j];
            sum[c] += factor * (distance ? own[c] - other : other);
          }
        }
      }
      T* to = points_bar + static_cast<size_t>(i) * d + from;
      LETHE_UNROLLED
      for (uint32_t c = 0; c < kTile; ++c) {
        along.At(i, 0) += sum[c] * own[c];
        if (from + c < d) to[c] = sum[c];
      }
    });
  }
  if (kernel.normalise) {
    // x = y / |y|:  dL/dy = (xbar - <xbar, x> x) / |y|
    Each(work.block, 0, n, [&](uint32_t i) {
      const T inverse = work.inverse_length[i];
      const size_t at = static_cast<size_t>(i) * d;
      for (uint32_t k = 0; k < d; ++k) {
        const T x = points[at + k] * inverse;
        points_bar[at + k] = (points_bar[at + k] - along.At(i, 0) * x) * inverse;
      }
    });
  }
  return parameter;
}

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CUDA_BLOCK_POINTS_H_
